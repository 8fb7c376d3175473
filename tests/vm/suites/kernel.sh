# What the guest's kernel can do: the disciplines and devices that a plan's configuration is made of.

test_is_real_time() {
	[ "$(cat /sys/kernel/realtime)" = 1 ] || fail "not a PREEMPT_RT kernel: $(uname -a)"
}

test_vlan_priority_is_on_the_wire() {
	pair
	in_a ip link add link ra name ra.5 type vlan id 5 egress-qos-map 3:5 7:6
	in_a ip link set ra.5 up
	in_a ip addr add 10.8.0.1/24 dev ra.5
	in_a ip neigh add 10.8.0.2 lladdr 02:00:00:00:00:02 dev ra.5 nud permanent
	in_b tc qdisc add dev rb clsact
	in_b tc filter add dev rb ingress protocol 802.1Q pref 1 flower vlan_prio 5 action pass
	in_a ping -c 3 -i 0.05 -W 1 -I ra.5 10.8.0.2 >/dev/null 2>&1 || true
	in_b tc -s filter show dev rb ingress | grep -q 'Sent 0 bytes' || fail "priority 0 came as PCP 5"
	in_a tc qdisc add dev ra.5 root handle 1: prio
	in_a tc filter add dev ra.5 parent 1: matchall action skbedit priority 3
	in_a ping -c 3 -i 0.05 -W 1 -I ra.5 10.8.0.2 >/dev/null 2>&1 || true
	in_b tc -s filter show dev rb ingress | grep -q ' 3 pkt' || fail "priority 3 did not come as PCP 5"
}

test_etf_reads_back() {
	pair
	in_a tc qdisc add dev ra root etf clockid CLOCK_TAI delta 200000
	expect 0 in_a tc qdisc show dev ra
	says "etf"
	says "clockid TAI delta 200000"
	expect 2 in_a tc qdisc replace dev ra root etf clockid CLOCK_MONOTONIC delta 200000
}

test_mqprio_and_cbs_read_back() {
	pair 4
	in_a tc qdisc add dev ra parent root handle 100: mqprio num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 \
		queues 1@0 1@1 2@2 hw 0
	in_a tc qdisc replace dev ra parent 100:1 cbs idleslope 20000 sendslope -980000 hicredit 30 locredit -1470 offload 0
	expect 0 in_a tc qdisc show dev ra
	says "tc 3 map 2 2 1 0"
	says "idleslope 20000"
}

test_taprio_reads_back() {
	pair 4
	in_a tc qdisc replace dev ra parent root handle 100: taprio num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 \
		queues 1@0 1@1 2@2 base-time 1000000000 sched-entry S 01 200000 sched-entry S 02 300000 \
		sched-entry S 04 500000 clockid CLOCK_TAI
	expect 0 in_a tc qdisc show dev ra
	says "cycle-time 1000000"
	says "index 2 cmd S gatemask 0x4 interval 500000"
}

test_netem_delays() {
	pair
	in_a tc qdisc add dev ra root netem delay 20ms
	expect 0 in_a ping -c 2 -i 0.05 -W 2 10.7.0.2
	says "2 packets received"
}

test_real_card_carries_frames() {
	nic_pair
	expect 0 in_a ping -c 3 -i 0.05 -W 2 10.7.0.2
	says "3 packets received"
}
