#!/bin/sh
# Guest test of `fathom balance`: the kernel takes its program, and the cases of tests/end_to_end/balance hold that need neither much
# time nor much load, with fewer connections.
# shellcheck source=checks
. /usr/lib/checks

export FATHOM_CONNECTIONS=200

check "connections keep their servers, whatever happens to the process" cases balance-cases connections_outlive
check "both families, tunnels and datagrams reach their servers" cases balance-cases services_of_both packets_go_through datagrams
finish
