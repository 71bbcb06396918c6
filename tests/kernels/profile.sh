#!/bin/sh
# Guest test of `fathom profile`: the cases of tests/end_to_end/profile with the probes of functions, and with tracepoints where the
# kernel's say whose packet was dropped; then both at once, compared field by field.
# shellcheck source=checks
. /usr/lib/checks

export FATHOM_TEST_SLACK_MS=1000

# Since Linux 7 a task may be put off in the middle of a probe. Until it goes on, the probe misses what other tasks do on that
# processor. Here the lab's real-time threads put tasks off, thousands of times a second. Ordinary tasks may go on in another
# order afterwards; real-time tasks go on in the same.
in_turn=
case $(uname -r) in
[1-6].*) ;;
*) in_turn="chrt --fifo 1" ;;
esac
readonly in_turn

# without MISSING [OPTION...]: the cases, but for fields that are not given here.
without() {
	missing=$1
	shift
	# shellcheck disable=SC2086 # Several words, or none.
	FATHOM_TEST_WITHOUT=$missing cases $in_turn profile-cases "$@"
}

# by SET MISSING [OPTION...]: the cases of one measurement, with a set of probes. Those of `departures` predict when the kernel sends again,
# which the emulated machine's timers do not keep to; the sets agree about them all the same. To fill the ring takes more
# profiles than it prints in minutes.
by() {
	set_of_probes=$1
	shift
	FATHOM_PROFILE_PROBE_SET=$set_of_probes without "$@" --skip agreement --skip command_line --skip departures \
		--skip whose_end_was_missed
}

# What profiles lack where no probe sees the segments that the stack drops.
readonly of_dropped=packets_duplicate,bytes_duplicate,checksum_errors,reverse_bytes,total_reverse_bytes,total_packets_duplicate
# Before 6.5 a SYN is sent again later; nobody says that a segment waited out of order already.
readonly since_6_5="--skip black_hole_at_the_start --skip duplicates_out_of_order"

fathom profile --probes >/probes
cat /probes
# shellcheck disable=SC2086 # Several words.
if grep -q 'no   cannot attach probes of functions' /probes; then
	check "the cases give their profiles by tracepoints, but for duplicates and checksum errors" \
		by tracepoint "$of_dropped" $since_6_5
elif grep -q 'no   checksum errors' /probes; then
	check "the cases give their profiles by fentry, but for checksum errors" by fentry checksum_errors $since_6_5
	# No window is closed by an acknowledgement of nothing new, as the first of `departures` does.
	check "both sets agree, but for duplicates and checksum errors" without "$of_dropped" agreement --skip departures
else
	check "the cases give their profiles by fentry" by fentry ""
	check "the cases give their profiles by tracepoints" by tracepoint ""
	check "both sets agree" without "" agreement
fi
# The guest's setpriv cannot take a capability from the bounding set.
check "options select, measurements begin and end" without "" command_line --skip names_that_cannot_be_had
finish
