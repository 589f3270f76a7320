"""A database of its own for each server that is attacked."""

from __future__ import annotations

import uuid

import psycopg


def new_database(postgres_url: str) -> str:
    """The address of a fresh database of that PostgreSQL server."""
    name = f"fuzz_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres_url.replace("/postgres?", f"/{name}?")
