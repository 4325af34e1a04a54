"""Builds dashboard.json for Grafana 10.1 and later out of `panels.ROWS`: `python profiling/grafana/build.py`.

Needs the development package grafana-foundation-sdk.
"""

from __future__ import annotations

import json
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as models
from panels import ROWS, Graph, Query

FILE = Path(__file__).with_name("dashboard.json")
UID = "linly-pipeline"
SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = 8
_LETTERS = "ABCDEFGHIJ"
_GREY_DASHES = [
    models.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 8]}),
    models.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": "text"}),
    models.DynamicConfigValue("custom.fillOpacity", 0),
    models.DynamicConfigValue("custom.stacking", {"mode": "none"}),
]


def built() -> str:
    """The text of dashboard.json."""
    return json.dumps(_dashboard().build(), cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def _dashboard() -> dashboard.Dashboard:
    board = (
        dashboard.Dashboard("Linly pipeline")
        .uid(UID)
        .description(
            "Where the time and memory of talking-head requests go. Built by profiling/grafana/build.py."
        )
        .tags(["linly"])
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_jobs())
    )
    number = 0
    for title, graphs in ROWS.items():
        number += 1
        board.with_row(dashboard.Row(title).id(number))
        for graph in graphs:
            number += 1
            board.with_panel(_panel(graph).id(number))
    return board


def _jobs() -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable("job")
        .label("Job")
        .datasource(SOURCE)
        .query("label_values(linly_build_info, job)")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(models.VariableOption(selected=True, text="All", value="$__all"))
    )


def _panel(graph: Graph) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(graph.title)
        .description(graph.tells)
        .datasource(SOURCE)
        .unit(graph.unit)
        .span(graph.width)
        .height(HEIGHT)
        .line_width(1)
        .fill_opacity(30 if graph.stacked else 5)
        .show_points(common_models.VisibilityMode.NEVER)
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
        )
    )
    if graph.stacked:
        panel.stacking(common.StackingConfig().mode(common_models.StackingMode.NORMAL).group("A"))
    if not any(query.expr.startswith("vector(-") or "av_offset" in query.expr for query in graph.queries):
        panel.min(0)
    for letter, query in zip(_LETTERS, graph.queries, strict=False):
        panel.with_target(_target(letter, query))
        if query.limit:
            panel.override_by_name(query.legend, _GREY_DASHES)
    return panel


def _target(letter: str, query: Query) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .ref_id(letter)
        .expr(query.expr)
        .legend_format(query.legend)
        .exemplar(query.exemplars)
        .datasource(SOURCE)
        .range()
    )


if __name__ == "__main__":
    FILE.write_text(built(), "utf-8")
