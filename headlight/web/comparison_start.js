// A comparison as a file: its data stands beside this script.

byId("theme").addEventListener("click", () => {
  const shown = document.documentElement.dataset.theme ?? "system";
  showTheme(THEMES[(THEMES.indexOf(shown) + 1) % THEMES.length]);
});
buildComparison();
showComparison(JSON.parse(byId("data").textContent));
