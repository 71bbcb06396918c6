#!/bin/sh
# Guest test of `fathom rtt` on a router: the round trips it reports are those of the emulated delay, and it detaches.
#
#   client 10.77.1.2 ---- lan0 router wan0 ---- server 10.77.2.2
#          fd77:1::2          (fathom)          fd77:2::2, sends 20 ms late
# shellcheck source=checks
. /usr/lib/checks

readonly delay_ms=20
# An emulated processor forwards late, never early.
readonly least_ns=20000000 most_ns=60000000
readonly pings=10 connections=5 transfer_bytes=200000

# station NAME INTERFACE NUMBER: a namespace with one interface towards the router's INTERFACE.
station() {
	ip netns add "$1"
	ip link add "$2" type veth peer name eth0 netns "$1"
	ip addr add "10.77.$3.1/24" dev "$2"
	ip addr add "fd77:$3::1/64" dev "$2" nodad
	ip link set "$2" up
	ip -n "$1" link set lo up
	ip -n "$1" addr add "10.77.$3.2/24" dev eth0
	ip -n "$1" addr add "fd77:$3::2/64" dev eth0 nodad
	ip -n "$1" link set eth0 up
	ip -n "$1" route add default via "10.77.$3.1"
	ip -n "$1" -6 route add default via "fd77:$3::1"
	ip netns exec "$1" sysctl -q -w net.ipv4.tcp_timestamps=1
}

# start_fathom INTERFACE: starts it with fresh outputs, and drives echoes until the first sample is out.
start_fathom() {
	rm -f /rtt.json /rtt.log
	fathom rtt -i "$1" --format json --sample-interval 0 >/rtt.json 2>/rtt.log &
	fathom_pid=$!
	wait_until 60 first_sample_or_end
	if [ ! -s /rtt.json ]; then
		tail -n 20 /rtt.log
		fail "fathom rtt -i $1 gave no sample in 60 s, or ended"
	fi
}

first_sample_or_end() {
	ip netns exec client ping -q -c 1 -W 1 10.77.2.2 >/dev/null
	[ -s /rtt.json ] || ended "$fathom_pid"
}

# Whether a child is gone or a zombie.
ended() { ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null; }

# Interrupts fathom as Ctrl-C does; true when it ends in time with status 0.
stop_fathom() {
	local status
	kill -INT "$fathom_pid"
	if ! wait_until 30 ended "$fathom_pid"; then
		echo "        still there after 30 s"
		kill -KILL "$fathom_pid"
	fi
	wait "$fathom_pid"
	status=$?
	[ "$status" -eq 0 ] || {
		echo "        status $status"
		tail -n 20 /rtt.log
		false
	}
}

# What is attached to an interface where traffic control can see it. tcx links end with their owner and are not listed.
attached() { # INTERFACE
	tc filter show dev "$1" ingress
	tc filter show dev "$1" egress
	ip -details link show dev "$1" | grep -o 'prog/xdp.*'
}

nothing_attached() {
	[ -z "$(attached "$1")" ] || {
		attached "$1"
		false
	}
}

# samples METHOD DESTINATION: the round-trip times, smallest first.
samples() {
	awk -v method="$1" -v destination="$2" '
		function value(name, text) {
			if (!match($0, "\"" name "\" *: *(\"[^\"]*\"|[0-9]+)")) return ""
			text = substr($0, RSTART, RLENGTH)
			sub(/^"[^"]*" *: */, "", text)
			gsub(/"/, "", text)
			return text
		}
		value("method") == method && value("destination") == destination { print value("rtt_ns") }
	' /rtt.json | sort -n
}

# round_trips METHOD DESTINATION COUNT LEAST MOST: at least COUNT samples, none below LEAST ns, their median not above MOST.
round_trips() {
	samples "$1" "$2" | awk -v count="$3" -v least="$4" -v most="$5" '
		{ rtt[NR] = $1 }
		END {
			median = rtt[int((NR + 1) / 2)]
			printf "        %d samples, least %.3f ms, median %.3f ms, most %.3f ms\n",
				NR, rtt[1] / 1e6, median / 1e6, rtt[NR] / 1e6
			exit !(NR >= count && rtt[1] >= least && median <= most)
		}'
}

every_line_is_a_record() {
	! grep -v -n '^{.*"kind".*"time".*}$\|^{.*"time".*"kind".*}$' /rtt.json | head -n 3 | grep .
}

listening() { ip netns exec server netstat -ltn | grep -q ':5001 '; }

echoes() { # ADDRESS
	ip netns exec client ping -q -c "$pings" -i 0.1 -W 5 "$1" >/ping || {
		cat /ping
		false
	}
}

# Over every connection the server counts what it receives, and says so when the client is done.
transfers() { # ADDRESS
	local connection received
	for connection in $(seq "$connections"); do
		received=$(head -c "$transfer_bytes" /dev/zero | ip netns exec client timeout 30 nc "$1" 5001)
		[ "$received" = "$transfer_bytes" ] || {
			echo "        connection $connection: $received bytes"
			return 1
		}
	done
}

echo "kernel $(uname -r)"
station client lan0 1
station server wan0 2
sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
tc -n server qdisc add dev eth0 root netem delay "${delay_ms}ms"
ip netns exec server nc -ll -p 5001 -e wc -c &
wait_until 20 listening || fail "the server does not listen"

start_fathom wan0
for server in 10.77.2.2 fd77:2::2; do
	check "$pings echoes come back from $server" echoes "$server"
	check "$connections connections carry $transfer_bytes bytes each to $server" transfers "$server"
done
check "SIGINT ends fathom with status 0" stop_fathom
check "every line of its output is a record" every_line_is_a_record
for server in 10.77.2.2 fd77:2::2; do
	client=$(echo "$server" | sed 's/\([.:]\)2/\11/')
	check "echo to $server" round_trips echo "$server" "$pings" "$least_ns" "$most_ns"
	check "handshake with $server" round_trips handshake "$server" "$connections" "$least_ns" "$most_ns"
	check "timestamps of $server" round_trips timestamp "$server" 3 "$least_ns" "$most_ns"
	check "handshake with $client, which is near" round_trips handshake "$client" "$connections" 1 "$((least_ns - 1))"
done
check "nothing stays attached to wan0" nothing_attached wan0
check "no clsact stays on wan0" sh -c '! tc qdisc show dev wan0 | grep clsact'

# What others attached is theirs.
tc qdisc add dev lan0 clsact
tc filter add dev lan0 ingress prio 7 matchall action pass
attached lan0 >/before
start_fathom lan0
check "SIGINT ends fathom beside another filter" stop_fathom
attached lan0 >/after
check "the other filter is as it was" cmp /before /after
check "its clsact is still there" sh -c 'tc qdisc show dev lan0 | grep -q clsact'
finish
