"""Check fixes end to end: read a live cluster, run the printed commands, and read it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer, Response, replay_response, serve_api, write_kubeconfig
from control_plane import kubectl
from control_plane.running import run
from control_plane.served import Client, ServedControlPlane
from control_plane.store import Key, RefusedError, Store
from control_plane.world import build_store
from live_fixtures import nobody  # noqa: F401 - fixtures

from kschedctl import demo
from kschedctl.cli.main import main

NAME = "cart-5f7b8c9d4-zr5mt"
ASKED = f"shop/{NAME}"


@pytest.fixture
def store() -> Store:
    """Build the demo cluster, in which only the pod of the test waits."""
    documents = yaml.load(demo.list_files()[0].read_text(), yaml.CSafeLoader)["items"]
    alone = [each for each in documents if each["kind"] != "Pod" or each["spec"].get("nodeName") or _is_asked(each)]
    found = build_store(alone, ASKED)
    run(found)
    return found


def _is_asked(document: dict[str, Any]) -> bool:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}" == ASKED


@pytest.fixture
def api(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """Run the API server of the store. Controllers and the scheduler run after every write."""
    served = ServedControlPlane(store, run, Response)
    with serve_api(served.read, replay_response, write=served.write) as api:
        monkeypatch.setenv("KUBECONFIG", write_kubeconfig(api.url, tmp_path / "config"))
        yield api


RESTARTS = {"Uncordon": 0, "Tolerate": 5, "MaxSkew": 5}


@pytest.mark.parametrize("kind", RESTARTS)
def test_printed_commands_have_the_predicted_effect(
    kind: str, store: Store, api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["remedies", NAME, "-n", "shop", "--only", kind, "-o", "json"])
    remedy = json.loads(capsys.readouterr().out)["remedies"][0]
    assert {method for method, _, _ in api.requests} == {"GET"}  # ours
    for command in remedy["commands"]:
        kubectl.run(Client(api.url), command)
    pods = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in _list_cart_pods(store)}
    assert len(pods) == 6
    assert None not in pods.values()
    first = next(line for line in store.log if line.startswith("bound Pod shop/cart"))
    assert first.rpartition(" ")[2] in remedy["opens"]
    assert remedy.get("restarts", 0) == RESTARTS[kind]
    main(["explain", "deploy/cart", "-n", "shop"])
    assert "one more pod of Deployment shop/cart, none of which is pending" in capsys.readouterr().out


def _list_cart_pods(store: Store) -> list[dict[str, Any]]:
    return [pod for pod in store.of_kind("Pod") if pod["metadata"]["name"].startswith("cart-")]


def test_immutable_fields_are_rejected_over_http(store: Store) -> None:
    key = Key("Pod", "shop", NAME)
    served = ServedControlPlane(store, lambda _: None, Response)
    with serve_api(served.read, write=served.write) as api:
        client = Client(api.url)
        with pytest.raises(RefusedError, match="pod updates may not change fields other than"):
            client.patch(key, {"spec": {"nodeSelector": {"a": "b"}}}, "merge")
        with pytest.raises(RefusedError, match="NotFound"):
            client.read(key._replace(name="none"))
        with pytest.raises(RefusedError, match="AlreadyExists"):
            client.create(client.read(key))
