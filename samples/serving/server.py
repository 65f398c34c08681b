"""A small REST server for an exported model, with the protocol of TensorFlow Serving.

    python server.py served --name clothing --port 8501

    GET  /v1/models/clothing           which version is served, and its state
    POST /v1/models/clothing:predict   {"instances": [{"b64": "..."}]} -> {"predictions": [...]}
    POST /v1/models/clothing:predict   {"inputs": {"image_bytes": [...]}} -> {"outputs": {...}}

It needs the folder and what requirements.txt names: TensorFlow, and waitress, which parses HTTP. It
looks for a new version every few seconds and takes it up between two requests. Bodies are bounded,
and so are the requests that are answered or wait for it: further ones get 503 and may come again.

    400  no JSON, no image, another input, a broken header
    404  another path                  411  a body without a length
    413  more than 64 MiB              503  too many requests at once

For real traffic, point TensorFlow Serving at the same folder:

    docker run -p 8501:8501 -v "$PWD/served:/models/clothing" -e MODEL_NAME=clothing tensorflow/serving
"""

import argparse
import base64
import http
import json
import pathlib
import re
import threading
import time

import tensorflow as tf
import waitress

MAX_BODY_BYTES = 64 << 20  # 64 MiB
SPARE_THREADS = 4  # that say 503 and answer GET while all others predict or wait
MAX_CONNECTIONS = 200
IDLE_SECONDS = 30  # after which a connection that sends nothing is closed
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
        versions = [int(path.name) for path in self.folder.iterdir() if path.name.isdecimal()]
        newest = max(versions, default=0)
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
        if not isinstance(request, dict):
            raise ValueError("the request must be a JSON object")
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


def reason_of(error):
    """What an operation says, without the places in the graph around it."""
    if not isinstance(error, tf.errors.OpError):
        return f"{type(error).__name__}: {error}"
    lines = error.message.partition("\n\t [[")[0].strip().splitlines() or ["no message"]
    return re.sub(r"^(assertion failed: )?(\{\{.*?\}\} )?", "", lines[-1].strip())


class Application:
    """A model, for a WSGI server.

    At most `at_once` requests are answered at a time, and `waiting` more may wait: each of them
    takes a thread and a body.
    """

    def __init__(self, model, at_once, waiting):
        self.model = model
        self.places = threading.BoundedSemaphore(at_once + waiting)
        self.turns = threading.BoundedSemaphore(at_once)

    def __call__(self, environ, start_response):
        code, content = self.answer(environ)
        body = json.dumps(content).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if code == 503:
            headers.append(("Retry-After", "1"))
        start_response(f"{code} {http.HTTPStatus(code).phrase}", headers)
        return [body]

    def answer(self, environ):
        """(status code, content) of a request."""
        path, model = environ.get("PATH_INFO", ""), self.model
        predicts = environ["REQUEST_METHOD"] == "POST"
        pattern = ":predict" if predicts else r"(/versions/\d+)?"
        if not re.fullmatch(rf"/v1/models/{re.escape(model.name)}{pattern}", path):
            return 404, {"error": f"no {path}; the model is {model.name}"}
        if not predicts:
            status = {"error_code": "OK", "error_message": ""}
            state = {"version": str(model.version), "state": "AVAILABLE", "status": status}
            return 200, {"model_version_status": [state]}
        if not environ.get("CONTENT_LENGTH"):
            return 411, {"error": "the request has no Content-Length"}
        if not self.places.acquire(blocking=False):
            return 503, {"error": "too many requests at once; send it again"}
        try:
            with self.turns:
                return 200, model.predict(json.loads(environ["wsgi.input"].read()))
        except (ValueError, TypeError, KeyError, RecursionError, tf.errors.OpError) as error:
            return 400, {"error": reason_of(error)}  # no JSON, no image, another input
        finally:
            self.places.release()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="with version folders: the --out of shardmill export")
    parser.add_argument("--name", default="model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8501, help="0 for any free one")
    parser.add_argument("--at-once", type=int, default=2, help="requests answered at a time")
    parser.add_argument("--waiting", type=int, default=30, help="requests that may wait")
    options = parser.parse_args()
    if options.at_once < 1 or options.waiting < 0:
        parser.error("--at-once is 1 or more, --waiting 0 or more")
    try:
        model = Model(options.folder, options.name)
    except OSError as error:
        parser.error(f"cannot load a model: {error}")
    if model.loaded is None:
        parser.error(f"no version folder in {options.folder}; run shardmill export --out there")
    threading.Thread(target=model.keep_looking, daemon=True).start()
    try:
        server = waitress.create_server(
            Application(model, options.at_once, options.waiting),
            host=options.host,
            port=options.port,
            threads=options.at_once + options.waiting + SPARE_THREADS,
            connection_limit=MAX_CONNECTIONS,
            channel_timeout=IDLE_SECONDS,
            max_request_body_size=MAX_BODY_BYTES,
        )
    except OSError as error:
        parser.error(f"cannot listen on {options.host}:{options.port}: {error}")
    at = f"http://{server.effective_host}:{server.effective_port}"
    print(f"serving version {model.version} on {at}", flush=True)
    server.run()


if __name__ == "__main__":
    main()
