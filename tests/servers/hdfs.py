"""HDFS: a name node and a data node of Apache Hadoop."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

from tests.engines.processes import free_port, processes
from tests.servers.fetch import fetched
from tests.servers.server import Server

_PACKAGE = "org.apache.hadoop.hdfs.server"
# Hadoop 3.4 binds its XML by reflection into the JDK.
_JAVA = ["java", "-Xmx256m", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
_LOGGING = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss} %p %c{1}: %m%n
"""


@contextlib.contextmanager
def hdfs(folder: Path) -> Iterator[Server]:
    """A cluster of one data node whose blocks are in a folder; its root is the bucket."""
    jars = fetched("hadoop")
    address, web = (f"127.0.0.1:{free_port()}" for _ in range(2))
    configuration = folder / "configuration"
    _write_configuration(configuration, folder, address, web)
    java = [*_JAVA, "-cp", f"{configuration}:{jars}/*"]
    format_disk = [*java, f"{_PACKAGE}.namenode.NameNode", "-format", "-nonInteractive"]
    subprocess.run(format_disk, check=True, capture_output=True, timeout=120)
    with processes(folder / "logs") as started:
        started.start("name-node", [*java, f"{_PACKAGE}.namenode.NameNode"])
        started.start("data-node", [*java, f"{_PACKAGE}.datanode.DataNode"])
        started.wait_for("name-node", lambda: _data_nodes(web) == 1)
        variables = {"HADOOP_CONF_DIR": str(configuration)}
        yield Server(address, f"hdfs://{address}", variables, started.pid("name-node"))


def _write_configuration(configuration: Path, folder: Path, address: str, web: str) -> None:
    for server in ("hdfs", "datanode"):  # pages that the jars lack, and servers insist on
        pages = configuration / "webapps" / server / "WEB-INF"
        pages.mkdir(parents=True)
        (pages / "web.xml").write_text("<web-app/>")
    (configuration / "webapps" / "static").mkdir()
    (configuration / "log4j.properties").write_text(_LOGGING)
    _write_xml(configuration / "core-site.xml", {"fs.defaultFS": f"hdfs://{address}"})
    here = "127.0.0.1:0"
    settings = {
        "dfs.namenode.name.dir": (folder / "names").as_uri(),
        "dfs.datanode.data.dir": (folder / "blocks").as_uri(),
        "dfs.namenode.http-address": web,
        "dfs.datanode.address": here,
        "dfs.datanode.http.address": here,
        "dfs.datanode.ipc.address": here,
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.replication": "1",
    }
    _write_xml(configuration / "hdfs-site.xml", settings)


def _write_xml(path: Path, settings: dict[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>{properties}</configuration>")


def _data_nodes(web: str) -> int:
    """How many data nodes the name node knows of; 0 while it starts or is in safe mode."""
    query = urllib.parse.quote("Hadoop:service=NameNode,name=FSNamesystemState", safe=":,=")
    try:
        with urllib.request.urlopen(f"http://{web}/jmx?qry={query}", timeout=5) as answer:
            (state,) = json.load(answer)["beans"]
    except (OSError, ValueError):
        return 0
    return int(state["NumLiveDataNodes"]) if state["FSState"] == "Operational" else 0
