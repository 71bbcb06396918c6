#!/bin/sh
# Guest test of the systemd unit: the agent under the guest's systemd, as its user, with the unit's capabilities. Needs --systemd.
#
#   this host 10.77.1.1 ---- lan0 ---- far 10.77.1.2
#     (fathom-agent.service)
# shellcheck source=checks
. /usr/lib/checks

readonly unit=fathom-agent.service store=/var/lib/fathom log=/run/agent.log drop_in=/run/systemd/system/fathom-agent.service.d
# CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF, CAP_CHECKPOINT_RESTORE
readonly capabilities=000001c000281000
# As systemd-analyze rates it, from 0 to 10.
readonly most_exposed=3.5

property() { systemctl show --property "$1" --value "$unit"; }
is() { # PROPERTY VALUE
	[ "$(property "$1")" = "$2" ] || {
		echo "        $1 is $(property "$1")"
		false
	}
}
agent() { property MainPID; }
of_process() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(agent)/status"; }

# What the unit allows is what the process has: it has passed on nothing.
has_capabilities() {
	[ "$(of_process CapPrm) $(of_process CapEff) $(of_process CapBnd)" = "$capabilities $capabilities $capabilities" ] &&
		[ "$(of_process CapInh) $(of_process CapAmb)" = "0000000000000000 0000000000000000" ]
}

is_exposed_little() {
	systemd-analyze --offline=true --no-pager security "$unit" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p' >/exposure
	echo "        exposure $(cat /exposure)"
	awk -v most="$most_exposed" '{ exit !($1 > 0 && $1 <= most) }' /exposure
}

owned() { [ "$(stat -c %U "$store") $(find "$store" ! -user fathom | wc -l)" = "fathom 0" ]; }

has_reloaded() { grep -q 'the configuration was read again' "$log"; }

# reload: until the agent says that it has.
reload() {
	local start
	start=$(date +%s) reload_seconds=0
	systemctl reload "$unit" && wait_until "$patience" has_reloaded && wait_until "$patience" is SubState running || return 1
	reload_seconds=$(($(date +%s) - start))
	echo "        reloaded in $reload_seconds s"
}

# Of every echo that was answered, the records have both packets. While both are measured, some are there twice.
counted_all() {
	local answered
	answered=$(sed -n 's/.* \([0-9]*\) received.*/\1/p' /ping)
	awk -v answered="$answered" '
		function value(name) {
			return match($0, "\"" name "\":[0-9]+") ? substr($0, RSTART + length(name) + 3, RLENGTH) + 0 : 0
		}
		/"kind":"traffic"/ && /"protocol":"icmp"/ { packets += value("packets") + value("reverse_packets") }
		END {
			print "        " answered " echoes were answered, and " packets " packets counted"
			exit !(answered > 0 && packets >= 2 * answered)
		}' "$store/records.json"
}

segments() { find "$store" -name '*.parquet' | sort; }
has_segments() { [ "$(segments | wc -l)" -gt "$1" ]; }

# Every segment is whole: so it begins and ends. Nothing had to be put aside.
consistent() {
	local segment
	[ ! -d "$store/aside" ] || [ -z "$(ls "$store/aside")" ] || return 1
	for segment in $(segments); do
		[ "$(head -c 4 "$segment")$(tail -c 4 "$segment")" = PAR1PAR1 ] || {
			echo "        $segment is not whole"
			return 1
		}
	done
}

# replaced PID: another process measures.
replaced() {
	[ "$(agent)" != "$1" ] && [ "$(property ActiveState)" = active ]
}

measures() { fathom agent status | grep -q lan0; }

processes() { grep -l '^fathom' /proc/[0-9]*/comm 2>/dev/null; }

nothing_left() {
	[ ! -e "/sys/fs/cgroup/system.slice/$unit" ] && [ ! -e /run/fathom ] || return 1
	[ -z "$(processes)$(tc filter show dev lan0 ingress)$(tc filter show dev lan0 egress)$(ls /sys/fs/bpf)" ]
}

tell_and_fail() {
	systemctl status --no-pager "$unit"
	tail -n 20 "$log"
	fail "$@"
}

echo "kernel $(uname -r), $(systemctl --version | head -n 1)"
systemd-sysusers
mkdir -p /etc/fathom
ip netns add far
ip link add lan0 type veth peer name eth0 netns far
ip addr add 10.77.1.1/24 dev lan0
ip link set lan0 up
ip -n far addr add 10.77.1.2/24 dev eth0
ip -n far link set eth0 up
printf '[agent]\ninterface = ["lan0"]\ninterval = "2s"\n' >/etc/fathom/fathom.toml

# There is no journal here.
mkdir -p "$drop_in"
printf '[Service]\nStandardError=append:%s\n' "$log" >"$drop_in/log.conf"

start=$(date +%s)
systemctl start "$unit" || tell_and_fail "the unit does not start"
start_seconds=$(($(date +%s) - start))
echo "        started in $start_seconds s"
check "the unit is active when it measures" measures
check "it is exposed by $most_exposed of 10 at most" is_exposed_little
check "the agent runs as its user" [ "$(stat -c %U "/proc/$(agent)")" = fathom ]
check "it has the unit's capabilities, and passes none on" has_capabilities
check "the store is its own" owned

# watched SECONDS: processes that start from now on are.
watched() {
	printf '[Service]\nWatchdogSec=%s\n' "$1" >"$drop_in/watchdog.conf"
	systemctl daemon-reload
}

patience=$((60 + 5 * start_seconds))
watched $((start_seconds / 2 + 1))
ping -q -c 40 -i 0.05 10.77.1.2 >/dev/null
first=$(agent) before=$(segments | wc -l)
kill -KILL "$first"
check "killed, it is started again" wait_until "$patience" replaced "$first"
check "and measures" wait_until "$patience" measures
check "what the killed one had logged becomes segments" wait_until "$patience" has_segments "$before"
check "the store is consistent" consistent
second=$(agent)
kill -STOP "$second"
check "stopped, the watchdog has it started again" wait_until "$patience" replaced "$second"
check "and it measures" wait_until "$patience" measures
check "twice in all" is NRestarts 2
check "it stops" systemctl stop "$unit"
check "with success" is Result success
check "nothing is left but the store" nothing_left
check "which is consistent" consistent

# What is measured besides has other programs, and to load them takes longer than this watchdog waits.
readonly watchdog_seconds=5
watched "$watchdog_seconds"
printf 'format = "json"\noutput = "%s/records.json"\nmeasure = ["traffic"]\n' "$store" >>/etc/fathom/fathom.toml
systemctl start "$unit" || tell_and_fail "the unit does not start with an output"
third=$(agent)
ping -q -i 0.05 10.77.1.2 >/ping &
pinging=$!
sed -i 's/^measure = .*/measure = ["rtt", "response", "traffic"]/' /etc/fathom/fathom.toml
check "it reloads" reload
check "which takes longer than the watchdog waits" [ "$reload_seconds" -gt "$watchdog_seconds" ]
check "and it is the same process" is MainPID "$third"
kill -INT "$pinging"
wait "$pinging"
check "it stops again" systemctl stop "$unit"
check "it has seen every packet" counted_all
finish
