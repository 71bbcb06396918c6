#!/bin/sh
# Guest test of `fathom balance`: the kernel takes its program, and the cases of tests/end_to_end/balance hold, with fewer connections.
# shellcheck source=checks
. /usr/lib/checks

cases() {
	FATHOM_BINARY=/usr/bin/fathom FATHOM_CONNECTIONS=200 RUST_BACKTRACE=0 \
		balance-cases --test-threads 1 --show-output "$@"
}

check "a balancer on real traffic" cases
finish
