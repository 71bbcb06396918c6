#!/bin/sh
# Guest test of `fathom rtt` and `response` and `traffic` on a router: the round trips and response latencies are those of the
# emulated delay, every segment is counted, and all three detach.
#
#   client 10.77.1.2 ---- lan0 router wan0 ---- server 10.77.2.2
#          fd77:1::2          (fathom)          fd77:2::2, sends 20 ms late
# shellcheck source=checks
. /usr/lib/checks

readonly delay_ms=20
# An emulated processor forwards late, never early.
readonly least_ns=20000000 most_ns=60000000
readonly pings=10 connections=5 transfer_bytes=200000 requests=100

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

# start_fathom MEASUREMENT INTERFACE [OPTION...]: starts it, and waits until it is attached; $! is its process.
start_fathom() {
	measurement=$1 interface=$2
	shift 2
	fathom "$measurement" -i "$interface" --verbose --format json "$@" >"/$measurement.json" 2>"/$measurement.log" &
	wait_until 60 attached_or_ended "$!"
	grep -q "^$interface: " "/$measurement.log" || {
		tail -n 20 "/$measurement.log"
		fail "fathom $measurement -i $interface is not attached after 60 s, or ended"
	}
}

attached_or_ended() { grep -q "^$interface: " "/$measurement.log" || ended "$1"; }

# Whether a child is gone or a zombie.
ended() { ! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null; }

# stop_fathom PROCESS: interrupts it as Ctrl-C does; true when it ends in time with status 0.
stop_fathom() {
	local status
	kill -INT "$1"
	if ! wait_until 30 ended "$1"; then
		echo "        still there after 30 s"
		kill -KILL "$1"
	fi
	wait "$1"
	status=$?
	[ "$status" -eq 0 ] || {
		echo "        status $status"
		tail -n 20 /*.log
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

# values FIELD FILE CONDITION: a field's values in the records that awk finds the condition true of, smallest first.
values() {
	awk -v field="$1" '
		function value(name, text) {
			if (!match($0, "\"" name "\" *: *(\"[^\"]*\"|[0-9]+)")) return ""
			text = substr($0, RSTART, RLENGTH)
			sub(/^"[^"]*" *: */, "", text)
			gsub(/"/, "", text)
			return text
		}
		'"$3"' && value(field) != "" { print value(field) }
	' "$2" | sort -n
}

# within COUNT LEAST MOST: at least COUNT times come in, in ns, none below LEAST, their median not above MOST.
within() {
	awk -v count="$1" -v least="$2" -v most="$3" '
		{ times[NR] = $1 }
		END {
			median = times[int((NR + 1) / 2)]
			printf "        %d: least %.3f ms, median %.3f ms, most %.3f ms\n",
				NR, times[1] / 1e6, median / 1e6, times[NR] / 1e6
			exit !(NR >= count && times[1] >= least && median <= most)
		}'
}

# round_trips METHOD DESTINATION COUNT LEAST MOST
round_trips() {
	values rtt_ns /rtt.json "value(\"method\") == \"$1\" && value(\"destination\") == \"$2\"" | within "$3" "$4" "$5"
}

# latencies SERVER: of the epochs of its connections. A millisecond is what timestamps are exact to.
latencies() {
	values latency_ns /response.json "value(\"destination\") == \"$1\" && value(\"destination_port\") == 5002" |
		within 3 "$((least_ns - 1000000))" "$most_ns" || {
		grep -F "\"$1\"" /response.json | head -n 5
		false
	}
}

# What left the TCP of both stations, ever.
segments() {
	for station in client server; do
		ip netns exec "$station" grep '^Tcp:' /proc/net/snmp
	done | awk '
		/[a-z]$/ { for (i = 1; i <= NF; i++) field[$i] = i; next }
		{ sum += $field["OutSegs"] + $field["RetransSegs"] }
		END { print sum }
	'
}

# counted SEGMENTS: so many, both ways.
counted() {
	local counted
	counted=$(for field in packets reverse_packets; do
		values "$field" /traffic.json 'value("kind") == "traffic" && value("protocol") == "tcp"'
	done | awk '{ sum += $1 } END { print sum + 0 }')
	echo "        $counted of $1 segments"
	[ "$counted" -eq "$1" ]
}

# every_line_is_a_record FILE
every_line_is_a_record() {
	! grep -v -n '^{.*"kind".*"time".*}$\|^{.*"time".*"kind".*}$' "$1" | head -n 3 | grep .
}

listening() { [ "$(ip netns exec server netstat -ltn | grep -c ':500[12] ')" -eq 2 ]; }

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

# Each request when the answer to the last one is here. Of a connection whose handshake was slow, because the machine stood still,
# nothing can be told: there are two.
asks() { # ADDRESS
	ask "$1" && ask "$1"
}

ask() { # ADDRESS
	local request answer
	rm -f /requests
	mkfifo /requests
	ip netns exec client timeout 60 nc "$1" 5002 </requests | {
		exec 3>/requests
		for request in $(seq "$requests"); do
			echo "$request" >&3
			read -r answer
			[ "$answer" = "$request" ] || return 1
		done
	}
}

echo "kernel $(uname -r)"
station client lan0 1
station server wan0 2
sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
tc -n server qdisc add dev eth0 root netem delay "${delay_ms}ms"
ip netns exec server nc -ll -p 5001 -e wc -c &
ip netns exec server nc -ll -p 5002 -e cat &
wait_until 20 listening || fail "the server does not listen"

start_fathom rtt wan0 --sample-interval 0
rtt=$!
for server in 10.77.2.2 fd77:2::2; do
	check "$pings echoes come back from $server" echoes "$server"
	check "$connections connections carry $transfer_bytes bytes each to $server" transfers "$server"
done
check "SIGINT ends fathom rtt with status 0" stop_fathom "$rtt"
check "every line of its output is a record" every_line_is_a_record /rtt.json
for server in 10.77.2.2 fd77:2::2; do
	client=$(echo "$server" | sed 's/\([.:]\)2/\11/')
	check "echo to $server" round_trips echo "$server" "$pings" "$least_ns" "$most_ns"
	check "handshake with $server" round_trips handshake "$server" "$connections" "$least_ns" "$most_ns"
	check "timestamps of $server" round_trips timestamp "$server" 3 "$least_ns" "$most_ns"
	check "handshake with $client, which is near" round_trips handshake "$client" "$connections" 1 "$((least_ns - 1))"
done

start_fathom response wan0
response=$!
start_fathom traffic wan0
traffic=$! before=$(segments)
for server in 10.77.2.2 fd77:2::2; do
	check "two connections have $requests requests each answered by $server, one after the other" asks "$server"
	check "$connections connections carry $transfer_bytes bytes each to $server" transfers "$server"
done
check "SIGINT ends fathom response with status 0" stop_fathom "$response"
check "SIGINT ends fathom traffic with status 0" stop_fathom "$traffic"
check "every segment is counted" counted "$(($(segments) - before))"
for file in /response.json /traffic.json; do
	check "every line of $file is a record" every_line_is_a_record "$file"
done
for server in 10.77.2.2 fd77:2::2; do
	check "latency of the responses of $server" latencies "$server"
done
check "nothing stays attached to wan0" nothing_attached wan0
check "no clsact stays on wan0" sh -c '! tc qdisc show dev wan0 | grep clsact'

# What others attached is theirs.
tc qdisc add dev lan0 clsact
tc filter add dev lan0 ingress prio 7 matchall action pass
attached lan0 >/before
start_fathom rtt lan0
check "SIGINT ends fathom beside another filter" stop_fathom "$!"
attached lan0 >/after
check "the other filter is as it was" cmp /before /after
check "its clsact is still there" sh -c 'tc qdisc show dev lan0 | grep -q clsact'
finish
