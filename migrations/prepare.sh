#!/bin/sh
# Renews .sqlx, what queries are checked against when there is no database. `make sqlx` runs it with
# DATABASE_URL set to an empty database. It applies the migrations with psql, because the program
# that would apply them cannot be built yet.
set -eu
cd "$(dirname "$0")/.."
for migration in migrations/*.sql; do
    psql --quiet --single-transaction --set ON_ERROR_STOP=1 --output /dev/null --file "$migration" "$DATABASE_URL"
done
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
touch crates/adjutant-store/src/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR="$new" cargo check --quiet --package adjutant-store
rm -rf .sqlx
mkdir .sqlx
cp "$new"/query-*.json .sqlx/
ls .sqlx | wc -l | xargs echo "queries:"
