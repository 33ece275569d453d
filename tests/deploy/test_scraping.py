"""The scrape configuration, used by a real VictoriaMetrics on a real server."""

from __future__ import annotations

import copy
import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import yaml

from api.http.server import HttpServer
from api.settings import Settings
from api.settings.model import StoreSection
from tests.deploy.dashboard import DEPLOY, filled, provisioned, queries
from tests.deploy.victoria import FOREVER_S, program, running

FILE: Final = DEPLOY / "prometheus.yml"
CONFIG: Final[dict[str, Any]] = yaml.safe_load(FILE.read_text())


def target() -> str:
    (scraped,) = CONFIG["scrape_configs"]
    (static,) = scraped["static_configs"]
    (address,) = static["targets"]
    assert isinstance(address, str)
    return address


def test_is_understood() -> None:
    subprocess.run(
        [program(), f"-promscrape.config={FILE}", "-dryRun"], check=True, capture_output=True
    )


def test_is_scraped(server: HttpServer, tmp_path: Path) -> None:
    address = f"127.0.0.1:{server.port}"
    config = copy.deepcopy(CONFIG)
    config["global"]["scrape_interval"] = "1s"
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [address]
    file = tmp_path / "scrape.yml"
    file.write_text(json.dumps(config))
    values = {"job": "job-1", "__rate_interval": "1m"}
    asked = {query.name: filled(query.target["expr"], values) for query in queries("prometheus")}
    with running(tmp_path, f"-promscrape.config={file}") as victoria:
        # Rates need two scrapes; each expression has something to show by then.
        until_s = time.monotonic() + FOREVER_S
        missing = set(asked)
        while missing and time.monotonic() < until_s:
            victoria.settle()
            missing = {name for name in missing if not victoria.instant(asked[name])}
            time.sleep(0.1)
        assert missing == set()
        (up,) = victoria.instant(asked["Service A"])
        assert up["metric"] == {"__name__": "up", "job": "ringscope", "instance": address}
        assert up["value"][1] == "1"
        steps = {
            series["metric"]["train_job"]: (series["metric"].get("name"), series["value"][1])
            for series in victoria.instant(asked["Step time A"])
        }
        assert steps == {"job-1": (None, "1"), "job-3": ("llama-70b", "2.5")}


def test_addresses_and_intervals_agree() -> None:
    metrics, api = provisioned("datasources")["datasources"]
    listen = Settings(store=StoreSection(directory=Path("/nowhere"))).http.listen
    assert str(listen) == target()
    assert api["url"] == f"http://{target()}"
    # Ending in a slash: as a bare prefix it would let other ports through.
    assert api["jsonData"]["allowedHosts"] == [f"http://{target()}/"]
    assert metrics["jsonData"]["timeInterval"] == CONFIG["global"]["scrape_interval"]
