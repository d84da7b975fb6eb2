#!/bin/sh
# Breaks each guard of the protocol on purpose (tests/mutants.rs) and runs the tests against it: all
# of them must fail. Needs ADJUTANT_TEST_SERVER; `make mutants` sets it. Arguments: names of
# mutants, all by default.
set -u
here=$(dirname "$0")
[ $# -gt 0 ] || set -- $(sed -n 's/.*name: "\([a-z_]*\)".*/\1/p' "$here/mutants.rs")
export ADJUTANT_DRIVER_SECONDS="${ADJUTANT_DRIVER_SECONDS:-30}" RUST_BACKTRACE=0
run() {
    cargo nextest run --profile mutants --retries 0 --package adjutant --test adjutant --color never \
        --filterset "not (test(/^cli::private_postgres::/) | test(/^cli::operator_commands::/) | test(/^faults::/) | test(/^mutants::/)) & ($1)"
}
# The store's tests come first: they are fast and catch most. The random driver is for the rest.
try() {
    run 'test(/^store::/) & not test(/^store::driver::/)' \
        && run 'not test(/^store::/)' \
        && run 'test(/^store::driver::/)'
}
# Without a mutant this passes, unless the server has gone away: then every test fails, and a
# failure says nothing of the mutant.
server_answers() {
    cargo nextest run --profile mutants --package adjutant --test adjutant --filterset 'test(/^mutants::/)' >/dev/null 2>&1
}
# A test that fails by itself catches nothing.
if ! run 'not test(/^store::driver::/)' >&2; then
    echo "the tests fail without any mutant; mend that first" >&2
    exit 2
fi
survived=0
for mutant in "$@"; do
    log=$(mktemp)
    if ADJUTANT_TEST_MUTANT=$mutant try >"$log" 2>&1
    then
        echo "SURVIVED $mutant"
        survived=$((survived + 1))
    else
        caught=$(sed -n 's/^ *\(FAIL\|TIMEOUT\) \[.*\] *([^)]*) [^ ]* \(.*\)/\2/p' "$log" | sort -u | head -n 3 | paste -sd ' ' -)
        if [ -z "$caught" ] || ! server_answers; then
            echo "$mutant: the tests did not run:"
            tail -n 20 "$log"
            exit 2
        fi
        echo "caught   $mutant: $caught"
    fi
    rm -f "$log"
done
[ "$survived" -eq 0 ]
