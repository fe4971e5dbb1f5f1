"""python -m deploy.prometheus: write the PrometheusRule of deploy/components/monitoring."""

from deploy.prometheus.sources import OPERATOR, prometheus_rule

OPERATOR.write_text(prometheus_rule(), encoding="utf-8")
