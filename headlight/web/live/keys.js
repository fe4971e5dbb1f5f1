// Keys of the whole page, and their list.

const isTyping = ({ target }) => target.matches("textarea, select, input:not([type=radio]):not([type=checkbox]):not([type=range])");

function buildKeys() {
  const list = byId("keys-list");
  byId("keys-button").addEventListener("click", () => list.showModal());
  byId("keys-close").addEventListener("click", () => list.close());
  addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !list.open && !byId("ask").hidden) {
      event.preventDefault();
      byId("ask").requestSubmit();
    } else if (event.key === "?" && !isTyping(event)) {
      event.preventDefault();
      if (list.open) list.close();
      else list.showModal();
    }
  });
}
