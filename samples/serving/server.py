"""A small REST server for an exported model, with the protocol of TensorFlow Serving.

    python server.py served --name clothing --port 8501

    GET  /v1/models/clothing           which version is served, and its state
    POST /v1/models/clothing:predict   {"instances": [{"b64": "..."}]} -> {"predictions": [...]}
    POST /v1/models/clothing:predict   {"inputs": {"image_bytes": [...]}} -> {"outputs": {...}}

It needs TensorFlow and the folder, nothing else. It looks for a new version every few seconds and
takes it up between two requests. For real traffic, point TensorFlow Serving at the same folder:

    docker run -p 8501:8501 -v "$PWD/served:/models/clothing" -e MODEL_NAME=clothing tensorflow/serving
"""

import argparse
import base64
import json
import pathlib
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import tensorflow as tf

MAX_BODY_BYTES = 64 << 20  # 64 MiB
LOOK_SECONDS = 2.0


class Model:
    """The latest version in a folder of versions."""

    def __init__(self, folder, name):
        self.folder, self.name = pathlib.Path(folder), name
        self.lock = threading.Lock()
        self.version, self.loaded = 0, None
        self.look()

    def look(self):
        """Loads the version of the greatest number, if it is not loaded yet."""
        found = [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]
        newest = max(found, default=0)
        if newest > self.version:
            loaded = tf.saved_model.load(str(self.folder / str(newest)))
            with self.lock:
                self.version, self.loaded = newest, loaded

    def keep_looking(self):
        while True:
            time.sleep(LOOK_SECONDS)
            try:
                self.look()
            except Exception as error:  # the version before is still served
                print(f"cannot load a version: {error}", flush=True)

    def predict(self, request):
        """The answer to a request of TensorFlow Serving's REST API."""
        with self.lock:
            loaded = self.loaded
        name = request.get("signature_name", "serving_default")
        if name not in loaded.signatures:
            raise ValueError(f"no signature {name!r}, only {', '.join(loaded.signatures)}")
        signature = loaded.signatures[name]
        specs = signature.structured_input_signature[1]
        if ("instances" in request) == ("inputs" in request):
            raise ValueError('the request must have either "instances" or "inputs"')
        columns = self.columns(request, specs)
        tensors = {key: tf.constant(columns[key], spec.dtype) for key, spec in specs.items()}
        outputs = {key: plain(value) for key, value in signature(**tensors).items()}
        if "inputs" in request:
            return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}
        rows = [dict(zip(outputs, row)) for row in zip(*outputs.values())]
        return {"predictions": rows}

    @staticmethod
    def columns(request, specs):
        """Name of an input -> its batch."""
        if "inputs" in request:
            inputs = decoded(request["inputs"])
            return inputs if isinstance(inputs, dict) else {next(iter(specs)): inputs}
        rows = [decoded(row) for row in request["instances"]]
        rows = [row if isinstance(row, dict) else {next(iter(specs)): row} for row in rows]
        return {key: [row[key] for row in rows] for key in specs}


def decoded(value):
    """The value with every {"b64": text} replaced by its bytes."""
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            return base64.b64decode(value["b64"], validate=True)
        return {key: decoded(each) for key, each in value.items()}
    return [decoded(each) for each in value] if isinstance(value, list) else value


def plain(tensor):
    """A tensor as JSON can hold it."""
    values = tensor.numpy()
    if values.dtype == object:
        return json.loads(json.dumps(values.tolist(), default=lambda each: each.decode()))
    return values.tolist()


def handler_of(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if not re.fullmatch(rf"/v1/models/{re.escape(model.name)}(/versions/\d+)?", self.path):
                return self.answer(404, {"error": f"no {self.path}; the model is {model.name}"})
            status = {"error_code": "OK", "error_message": ""}
            state = {"version": str(model.version), "state": "AVAILABLE", "status": status}
            self.answer(200, {"model_version_status": [state]})

        def do_POST(self):
            length = int(self.headers.get("Content-Length") or 0)
            if length > MAX_BODY_BYTES:
                self.close_connection = True
                return self.answer(413, {"error": f"the request is larger than {MAX_BODY_BYTES}"})
            body = self.rfile.read(length)
            if self.path != f"/v1/models/{model.name}:predict":
                return self.answer(404, {"error": f"no {self.path}; the model is {model.name}"})
            try:
                self.answer(200, model.predict(json.loads(body)))
            except Exception as error:  # of the request: no JSON, no image, another input
                self.answer(400, {"error": f"{type(error).__name__}: {error}"})

        def answer(self, code, content):
            body = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="with version folders: the --out of shardmill export")
    parser.add_argument("--name", default="model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8501, help="0 for any free one")
    options = parser.parse_args()
    model = Model(options.folder, options.name)
    if model.loaded is None:
        parser.error(f"no version folder in {options.folder}; run shardmill export --out there")
    threading.Thread(target=model.keep_looking, daemon=True).start()
    server = ThreadingHTTPServer((options.host, options.port), handler_of(model))
    print(f"serving version {model.version} on http://{options.host}:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
