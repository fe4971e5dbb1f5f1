"""python -m deploy.grafana: write headlight.json from its rows and the service's metrics."""

from deploy.grafana.dashboard import FILE, text

FILE.write_text(text(), encoding="utf-8")
