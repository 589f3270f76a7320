# Everything here sets itself up: a machine with Python 3.11, git and make is enough.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
export UV_PYTHON_DOWNLOADS ?= never

.PHONY: help setup system demo test check format containers ssh torch s3 jupyter mlflow attack fuzz drills chaos installs bench bench-mlflow clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .venv/.ready  ## make .venv with everything in it

.venv/.ready: pyproject.toml uv.lock scripts/setup
	@PYTHON=$(PYTHON) scripts/setup

demo: setup  ## one real training on this machine, from submission to result
	@.venv/bin/python examples/demo.py

test: setup system  ## the tests
	@scripts/test

system: setup
	@scripts/system

check: setup  ## style, types, layers
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache

format: setup  ## put the code in shape
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

attack: setup system  ## odd and hostile requests to real servers; in a few minutes
	@.venv/bin/python -m pytest -q -m attack --timeout 600 tests/fuzz tests/e2e/test_mistakes.py

fuzz: setup system  ## the same as a campaign of 10,000 requests; SEED=N repeats one
	@.venv/bin/python -m tests.fuzz $(if $(SEED),--seed $(SEED))

containers: setup system  ## containers: the driver contract, clusters of them
	@.venv/bin/python -m pytest -q -m containers --timeout 600 tests/contract tests/containers

ssh: setup system  ## nodes over SSH: the driver contract on an old Python, faults that take their time
	@.venv/bin/python -m pytest -q -m ssh --timeout 600 tests/ssh

torch: setup system  ## PyTorch's own processes on two nodes; the first time it is installed
	@.venv/bin/python -m pytest -q -m torch --timeout 600 tests/e2e tests/ssh

s3: setup system  ## files in a bucket of a real S3 server; the first time it is installed
	@.venv/bin/python -m pytest -q -m s3 --timeout 600 tests/contract/test_blobs.py tests/buckets

jupyter: setup system  ## compute instances with a real JupyterLab; the first time it is installed
	@.venv/bin/python -m pytest -q -m jupyter --timeout 900 tests/session

mlflow: setup system  ## MLflow's released clients, oldest and newest, with a real server; the first time they are installed
	@.venv/bin/python -m pytest -q -m mlflow --timeout 900 tests/mlflow

drills: setup  ## processes die, disks fill, networks break; in a few minutes
	@.venv/bin/python -m pytest -q -m chaos --timeout 600 tests/chaos

chaos: setup system  ## the same as a campaign of hours; SEED=N repeats one; JOBS=N at once, SHARE=0.1 of it
	@.venv/bin/python -m chaos $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(SHARE),--share $(SHARE))

installs: setup system  ## large and old environments from the real package index; in minutes
	@.venv/bin/python -m pytest -q -m installs --timeout 600 tests/builds tests/e2e

bench: setup  ## speed and memory, as ratios
	@.venv/bin/python -m benchmarks

bench-mlflow: setup  ## the same beside a real mlflow server; the first time it is installed
	@.venv/bin/python -m benchmarks.mlflow_server

simulate: setup  ## a cluster of 1,000 nodes and 100,000 runs through a week; in two minutes; SEEDS=10 weeks
	@.venv/bin/python -m benchmarks.simulation $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS))

clean:  ## remove what the targets above made
	rm -rf .venv .tools .demo .bench .chaos
