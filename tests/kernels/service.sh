#!/bin/sh
# Guest test of the unit fathom-agent.service, under systemd: the agent starts, measures and stores as the user `fathom`, says that it
# lives, reads its configuration again, comes back when it is killed or stuck, and leaves nothing when it is stopped.
# brings: /bin/kill /lib/systemd/systemd /lib/systemd/systemd-executor? systemctl systemd-sysusers bpftool
# brings: /lib/systemd/system/sysinit.target /lib/systemd/system/basic.target /lib/systemd/system/shutdown.target
# brings: packaging/systemd/fathom-agent.service:/etc/systemd/system/fathom-agent.service
# brings: packaging/systemd/fathom.sysusers:/usr/lib/sysusers.d/fathom.conf
# shellcheck source=checks
. /usr/lib/checks

property() { systemctl show --value --property "$1" fathom-agent; }
# has PROPERTY VALUE
has() { [ "$(property "$1")" = "$2" ]; }
is_active() { has ActiveState active; }
of_process() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(property MainPID)/status"; }
# What the kernel has for the agent, without numbers; systemd has programs of its own at control groups.
in_kernel() {
	{
		bpftool prog show
		bpftool map show
		tc qdisc show dev pair0
		tc filter show dev pair0 ingress
		tc filter show dev pair0 egress
	} | sed -n '/cgroup_/d; /name \|clsact\|filter/ { s/^[0-9]*: //; s/\(id \|:\[\|handle 0x\)[0-9]*//g; p }'
}
leaves_nothing() {
	in_kernel | diff /before - && [ ! -e /run/fathom ] && ! pidof fathom
}
# came_back RESTARTS: after so many, with one set of programs.
came_back() {
	has NRestarts "$1" && is_active && in_kernel | diff -q /running - >/dev/null
}
measures() { fathom agent status | grep -q "^$1: "; }
stores() {
	ping -q -c 5 -i 0.1 10.77.1.2 >/dev/null
	fathom agent status | tee /status | grep -q '^store: [1-9][0-9]* records, 0 lost'
}
lives() { [ "$(property WatchdogTimestampMonotonic)" -gt "$1" ]; }

ip netns add far
ip link add pair0 type veth peer name pair1 netns far
ip addr add 10.77.1.1/24 dev pair0
ip link set pair0 up
ip -n far addr add 10.77.1.2/24 dev pair1
ip -n far link set pair1 up
ip route add default via 10.77.1.2
mkdir -p /etc/fathom /etc/systemd/system/fathom-agent.service.d /var/lib
echo '[agent]
measure = ["rtt", "traffic", "profile"]
interval = "1s"' >/etc/fathom/fathom.toml
# Sooner than in months of running.
echo '[Service]
WatchdogSec=60
RestartSec=1
StandardError=append:/agent.log' >/etc/systemd/system/fathom-agent.service.d/test.conf
systemd-sysusers
in_kernel >/before

systemctl start fathom-agent || {
	cat /agent.log
	fail "it does not start"
}
check "it says that it has started" is_active
check "it runs as fathom" [ "$(of_process Uid | cut -f 1)" = "$(id -u fathom)" ]
check "it cannot gain privileges, and its system calls are filtered" [ "$(of_process NoNewPrivs) $(of_process Seccomp)" = "1 2" ]
in_kernel >/running
check "the kernel has its programs" sh -c "! diff /before /running >/dev/null"
check "it measures, and keeps records" wait_until 60 stores
told=$(property WatchdogTimestampMonotonic)
check "it says that it lives" wait_until 30 lives "$told"

sed -i 's/"traffic"/"traffic", "response"/' /etc/fathom/fathom.toml
check "it is told to read its configuration again" systemctl reload fathom-agent
check "it does" wait_until 60 measures response
check "it is the same process" has NRestarts 0
in_kernel >/running

kill -KILL "$(property MainPID)"
check "killed, it comes back" wait_until 60 came_back 1
kill -STOP "$(property MainPID)"
check "stuck, it comes back" wait_until 150 came_back 2
check "it stores again" wait_until 60 stores

check "it stops" systemctl stop fathom-agent
check "it ended well" has Result success
check "it leaves nothing" leaves_nothing
for kind in rtt_aggregate traffic agent; do
	check "records of $kind are kept" [ -n "$(find "/var/lib/fathom/$kind" -name '*.parquet' -user fathom)" ]
done
cat /status /agent.log
finish
