"""python -m deploy.grafana: write headlight.json from the rows of this folder and the metrics of the service."""

from deploy.grafana.dashboard import FILE, text

FILE.write_text(text(), encoding="utf-8")
