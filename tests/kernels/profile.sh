#!/bin/sh
# Guest test of `fathom profile`: the cases of tests/end_to_end/profile with the probes of functions, and with tracepoints where the
# kernel's say whose packet was dropped. What needs more than the guest has (a shell with sockets, MPTCP endpoints) is left out.
# shellcheck source=checks
. /usr/lib/checks

# cases SET MISSING [OPTION...]: the cases with a set of probes, but for fields that it does not give here. The cases `departures` play a
# peer by hand, and the emulated machine's timers do not wait for it.
cases() {
	set_of_probes=$1 missing=$2
	shift 2
	FATHOM_BINARY=/usr/bin/fathom FATHOM_PROBE_SET=$set_of_probes FATHOM_TEST_WITHOUT=$missing FATHOM_TEST_SLACK_MS=1000 RUST_BACKTRACE=0 \
		profile-cases --test-threads 1 --skip command_line --skip multipath --skip departures "$@"
}

fathom profile --probes >/probes
cat /probes
if grep -q 'no   checksum errors' /probes; then
	# Before 6.5 a SYN is sent again later; and nobody says that a segment waited out of order already.
	check "the cases give their profiles by fentry, but for checksum errors" cases fentry checksum_errors \
		--skip black_hole_at_the_start --skip duplicates_out_of_order
	echo "        tracepoints lack duplicates here: only what they have is loaded, by load.sh"
else
	check "the cases give their profiles by fentry" cases fentry ""
	check "the cases give their profiles by tracepoints" cases tracepoint ""
fi
finish
