#!/bin/sh
# Guest test of the guest itself: what the other tests stand on is there. Needs no fathom.
# shellcheck source=checks
. /usr/lib/checks

mounted() { grep -q " $2 $1 " /proc/mounts; }

# Devices and queueing disciplines: creating one loads its module.
device() { ip link add probe "$@" && ip link del probe; }
discipline() { tc qdisc add dev pair0 "$@" && tc qdisc del dev pair0 "$1"; }

filter() {
	tc qdisc add dev pair0 clsact && tc filter add dev pair0 ingress "$@" && tc qdisc del dev pair0 clsact
}

# delayed ADDRESS: the smallest of ten round trips is the emulated delay, and the emulated processor adds little.
delayed() {
	ping -q -c 10 -i 0.1 -W 5 "$1" >/tmp/ping
	awk -F '[ /]' '/^rtt/ { print "        ping " $7 " ms least, " $8 " ms mean"; least = $7; mean = $8 }
		END { exit !(least >= 20 && mean <= 60) }' /tmp/ping
}

listening() { ip netns exec far netstat -ltn | grep -q ':5001 '; }

# transferred ADDRESS BYTES: the far side counts what it receives over TCP and says so.
transferred() {
	local received
	received=$(head -c "$2" /dev/zero | timeout 60 nc "$1" 5001)
	[ "$received" = "$2" ] || {
		echo "        $received of $2 bytes"
		false
	}
}

echo "kernel $(uname -r)"
check "bpffs is mounted" mounted bpf /sys/fs/bpf
check "tracefs is mounted" mounted tracefs /sys/kernel/tracing
check "cgroup2 is mounted" mounted cgroup2 /sys/fs/cgroup
check "the kernel has BTF" test -r /sys/kernel/btf/vmlinux
check "tun" test -c /dev/net/tun

ip link add pair0 type veth peer name pair1
for kind in ifb bridge; do
	check "device $kind" device type "$kind"
done
check "device vxlan" device type vxlan id 1 local 127.0.0.1 dstport 4789
check "device geneve" device type geneve id 1 remote 127.0.0.1
check "device gre" device type gre local 127.0.0.1 remote 127.0.0.2
check "device ip6gre" device type ip6gre local ::1 remote ::2
check "device ipip" device type ipip local 127.0.0.1 remote 127.0.0.2
check "device sit" device type sit local 127.0.0.1 remote 127.0.0.2
check "device vlan" device link pair0 type vlan id 5
check "device macvlan" device link pair0 type macvlan
check "discipline tbf" discipline root tbf rate 10mbit burst 10k latency 50ms
check "discipline htb" discipline root htb
check "discipline fq" discipline root fq
check "discipline fq_codel" discipline root fq_codel
check "discipline clsact" discipline clsact
check "filter matchall" filter matchall action pass
check "filter u32" filter protocol ip u32 match u32 0 0 action drop

ip netns add far
ip link set pair1 netns far
ip addr add 10.77.1.1/24 dev pair0
ip addr add fd77:1::1/64 dev pair0 nodad
ip link set pair0 up
ip -n far addr add 10.77.1.2/24 dev pair1
ip -n far addr add fd77:1::2/64 dev pair1 nodad
ip -n far link set pair1 up
check "20 ms of netem" tc -n far qdisc add dev pair1 root netem delay 20ms
check "IPv4 round trips take it" delayed 10.77.1.2
check "IPv6 round trips take it" delayed fd77:1::2
ip netns exec far nc -ll -p 5001 -e wc -c &
check "a TCP server listens" wait_until 20 listening
check "TCP over IPv4" transferred 10.77.1.2 100000
check "TCP over IPv6" transferred fd77:1::2 100000
finish
