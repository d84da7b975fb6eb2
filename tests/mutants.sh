#!/bin/sh
# Breaks each guard of the protocol on purpose and expects that the tests which its mutant names in
# tests/mutants fail. It starts a PostgreSQL of its own if ADJUTANT_TEST_SERVER is not set.
#
#   sh tests/mutants.sh              all mutants
#   sh tests/mutants.sh NAME...      these
#   sh tests/mutants.sh --all NAME   runs all tests, to find which ones catch a new mutant
#
# Exit code 0: all were caught; 1: a mutant survived; 2: the tests could not run.
set -u
ADJUTANT_TEST_MUTANTS="$*" ${CARGO:-cargo} test --quiet --package adjutant --test adjutant -- \
    --ignored --exact mutants::run::every_mutant_is_caught --nocapture
code=$?
[ "$code" -le 1 ] || exit 2
exit "$code"
