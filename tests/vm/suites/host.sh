# Making a host ready with what ordinary kernels lack: a namespace of its own with all queues in it, credits (CBS), receive work in
# threads; and what `rtwire doctor --measure` says of launch times.

. /lab/suites/apply.sh

# Settings below /proc/sys/net too: a move sets them back to those of the namespace.
everything() {
	looks
	in_a sh -c 'cat /proc/sys/net/ipv4/neigh/ra/* /proc/sys/net/ipv6/neigh/ra/* 2>/dev/null' || true
}

# nsenter has no view of the file system of its own, with which the name of a namespace would go.
apply() { nsenter --net=/run/netns/vm-a rtwire apply plan.toml --host A --interface ra "$@"; }

# What a test that failed left.
fresh() { ip netns del rtw-ra 2>/dev/null || true; }

in_own() { ip netns exec rtw-ra "$@"; }

test_a_namespace_with_queues_and_vlan_in_it() {
	fresh
	network "" ""
	pair 4
	in_a sysctl -qw net.ipv4.conf.ra.accept_local=1 net.ipv4.neigh.ra.delay_first_probe_time=3
	in_a ip route add 10.8.0.0/16 via 10.7.0.2
	everything >before
	expect 0 apply --isolation namespace
	expect 1 in_a ip link show ra
	expect 0 in_own tc qdisc show dev ra
	says "qdisc mqprio"
	says "qdisc tbf"
	expect 0 in_own ip -d link
	says "vlan protocol 802.1Q id 5"
	[ -z "$(in_own ip -4 address show dev ra)" ] || fail "addresses in the namespace"
	expect 0 apply --isolation namespace
	says "as planned already"
	expect 0 nsenter --net=/run/netns/vm-a rtwire revert ra
	everything >after
	cmp before after || {
		diff before after || true
		fail "not as before"
	}
	! ip netns list | grep -q rtw-ra || fail "the namespace is still there"
}

test_a_real_card_goes_and_comes_back() {
	fresh
	network "" ""
	nic_pair
	everything >before
	expect 0 apply --isolation namespace
	expect 1 in_a ip link show ra
	expect 0 nsenter --net=/run/netns/vm-a rtwire revert ra
	everything >after
	cmp before after || {
		diff before after || true
		fail "not as before"
	}
}

# flooded_class: frames as long as the plan's, as fast as they go, in a class that CBS holds to 1100 kbit/s, to an address that
# nobody answers for. What comes through in five seconds is the slope, as the wire counts: $rate, kbit/s.
flooded_class() {
	network "" ""
	cat >>plan.toml <<-END
		[[shaper]]
		node = "A"
		priority = 7
		kind = "credit"
		idle-slope = "1100 kbit/s"
	END
	pair 4
	[ "$LAB_MODE" = measure ] || round
	expect 0 apply
	expect 0 in_a tc -d qdisc show dev ra
	says "qdisc cbs"
	says "idleslope 1100"
	says "overhead 24"
	in_a ip address add 10.7.0.1/24 dev ra
	in_a ip link set ra arp on
	in_a ip neigh replace 10.7.0.9 lladdr 02:00:00:00:00:02 dev ra nud permanent
	in_a tc qdisc add dev ra clsact
	in_a tc filter add dev ra egress protocol all matchall action skbedit priority 7
	in_a bash -c 'exec dd if=/dev/zero bs=60 >/dev/udp/10.7.0.9/9' 2>/dev/null &
	sleep 2
	busy
	from=$(bits) start=$(now)
	sleep 5
	to=$(bits) end=$(now)
	busy
	rate=$(echo "$from $to $start $end" | awk '{ printf "%d", ($2 - $1) / ($4 - $3) / 1000 }')
	echo "$rate kbit/s"
}
bits() { in_b cat /proc/net/dev | awk '$1 == "rb:" { print ($2 + 24 * $3) * 8 }'; }
now() { cut -d' ' -f1 /proc/uptime; }

# Frames wait in the shaped class: what it sends less than its slope, the shaper itself held back.
busy() {
	waiting=$(in_a tc -s qdisc show dev ra | sed -n '/^qdisc cbs/,$s/^ backlog [^ ]* \([0-9]*\)p.*/\1/p' | head -n 1)
	[ "${waiting:-0}" -gt 20 ] || fail "${waiting:-no} frames wait: the class is not kept busy: $(in_a tc -s qdisc show dev ra)"
}

# Here only that no more comes through: the shaper sleeps for each frame, and an emulated processor wakes it late. What is lost so
# is lost, for the credit ends at what the plan's frames can save up. In virtual time, where nobody is late, `scripts/vm measure
# credits` wants the slope itself.
test_credits_hold_a_class_to_its_idle_slope() {
	flooded_class
	[ "$rate" -le 1130 ] || fail "$rate kbit/s passed a slope of 1100"
	[ "$rate" -gt 0 ] || fail "nothing came through"
}

test_credits_that_the_host_cannot_keep_are_named() {
	network "" ""
	cat >>plan.toml <<-END
		[[shaper]]
		node = "A"
		priority = 7
		kind = "credit"
		idle-slope = "20 Mbit/s"
	END
	pair
	looks >before
	expect 3 apply
	says "CBS"
	says "cannot be promised any more: the limit of fast"
	looks >after
	cmp before after || fail "not as before"
	expect 0 apply --fallback
}

# napi_threads: the process ids of the threads that do receive work of a device `ra`, in any namespace.
napi_threads() {
	ps | sed -n 's/^ *\([0-9]*\) .*\[napi\/ra-.*/\1/p'
}

test_receive_work_in_threads() {
	# The `ra` of an earlier test lives on for as long as a process of that test does, and so do its threads.
	before=" $(napi_threads | tr '\n' ' ')"
	network "" ""
	pair 4
	case $LAB_KERNEL in
	6.1.*)
		expect 3 apply --receive-priority 40
		says "receive contexts"
		return
		;;
	esac
	round --receive-priority 40 --irq-cpu 1
	expect 0 apply --receive-priority 40 --irq-cpu 1
	threads=
	for thread in $(napi_threads); do
		case $before in *" $thread "*) ;; *) threads="$threads $thread" ;; esac
	done
	[ -n "$threads" ] || fail "no thread: $(ps)"
	for thread in $threads; do
		expect 0 chrt -p "$thread"
		case $output in *40*) ;; *) fail "$(ps | grep 'napi/ra-'; for one in $threads; do chrt -p "$one"; done)" ;; esac
	done
}

# The tests of receive contexts, which 6.1 does not tell of: that what was given to threads is undone on kernels that keep them.
test_receive_contexts_are_undone() {
	case $LAB_KERNEL in 6.1.*) return ;; esac
	program=$(awk '$1 == "host" { print $2 }' /lab/programs)
	expect 0 "/lab/bin/$program" napi --test-threads=1
	says "threads_have_the_priority_asked_for_and_end_with_their_guard ... ok"
}

test_measured_launch_times_are_kept_by_the_queue_that_was_asked_for() {
	# Whether this emulated machine is fit at the moment (0) or has its weaknesses (1) is not the question here.
	code=0
	output=$(rtwire doctor --measure --duration 1s --load none --json 2>&1) || code=$?
	case $code in 0 | 1) ;; *) fail "$output
doctor ended with $code" ;; esac
	says '"what": "launch"'
	says '"asked": "etf"'
	! echo "$output" | grep -q '"in_force": false' || fail "$(echo "$output" | grep -B5 '"in_force": false')"
}

# foreign QUEUES…: a host with these queues before `rtwire apply`; what `tc` shows of them is the same after `rtwire revert`.
foreign() {
	network "" ""
	in_a tc qdisc del dev ra root 2>/dev/null || true
	local line
	for line in "$@"; do
		# shellcheck disable=SC2086
		in_a tc $line
	done
	in_a tc -d qdisc show dev ra >queues.before
	in_a tc -d class show dev ra >>queues.before
	looks >before
	expect 0 apply --isolation addresses --no-sync
	expect 0 apply --isolation addresses --no-sync --check
	expect 0 nsenter --net=/run/netns/vm-a rtwire revert ra
	looks >after
	in_a tc -d qdisc show dev ra >queues.after
	in_a tc -d class show dev ra >>queues.after
	cmp queues.before queues.after || {
		diff queues.before queues.after || true
		fail "other queues than before: $*"
	}
	cmp before after || {
		diff before after || true
		fail "not as before: $*"
	}
}

test_foreign_mqprio_comes_back() {
	pair 4
	foreign "qdisc add dev ra root handle 100: mqprio num_tc 3 map 2 2 1 0 2 2 2 2 2 2 2 2 2 2 2 2 queues 1@0 1@1 2@2 hw 0"
	foreign "qdisc add dev ra root handle 100: mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0" \
		"qdisc add dev ra parent 100:1 handle 21: fq_codel limit 900 target 7ms interval 90ms" \
		"qdisc add dev ra parent 100:2 handle 22: sfq perturb 10" \
		"qdisc add dev ra parent 100:3 handle 23: pfifo limit 9"
}

test_foreign_queues_of_each_kind_come_back() {
	pair 4
	local kind
	for kind in fq_codel "fq_codel limit 900 target 7ms interval 90ms ce_threshold 3ms noecn" "sfq perturb 10 quantum 3000" \
		fq "netem delay 3ms 1ms loss 2%" "prio bands 4" "tbf rate 20mbit burst 4k latency 5ms" mq; do
		foreign "qdisc add dev ra root handle 5: $kind"
	done
}

test_foreign_htb_with_sfq_and_fq_codel_comes_back() {
	pair 4
	foreign "qdisc add dev ra root handle 1: htb default 20" \
		"class add dev ra parent 1: classid 1:1 htb rate 50mbit ceil 60mbit burst 20k" \
		"class add dev ra parent 1:1 classid 1:10 htb rate 30mbit ceil 50mbit prio 1" \
		"class add dev ra parent 1:1 classid 1:20 htb rate 1mbit ceil 50mbit prio 3 quantum 2000" \
		"qdisc add dev ra parent 1:10 sfq perturb 10" \
		"qdisc add dev ra parent 1:20 handle 30: fq_codel"
	# Its counters are no settings.
	in_a ping -c 3 -i 0.1 10.7.0.2 >/dev/null 2>&1 || true
}

test_a_small_mtu_with_vlan_and_macvlan_children() {
	pair 4
	in_a ip link add link ra name ra.7 type vlan id 7
	in_a ip link add link ra.7 name rm type macvlan
	in_a sysctl -qw net.ipv6.conf.ra.disable_ipv6=0 net.ipv6.conf.ra/7.disable_ipv6=0 net.ipv6.conf.rm.disable_ipv6=0
	in_a ip link set ra.7 up
	in_a ip link set rm up
	in_a ip address add 10.17.0.1/24 dev ra.7
	in_a ip -6 address add fd17::1/64 dev ra.7 nodad
	in_a ip -6 address add fd18::1/64 dev rm nodad
	in_a ip -6 route add fd19::/64 via fd17::2 dev ra.7
	in_a ip neigh add 10.7.0.50 lladdr 02:00:00:00:00:50 dev ra nud permanent
	all() {
		looks
		in_a ip address
		in_a ip -6 route show table all | sort
		in_a ip neigh show nud permanent | sort
	}
	wait_quiet() { # Link-local addresses are probed for a second or two.
		for _ in $(seq 40); do
			in_a ip -6 address | grep -q tentative || break
			sleep 0.2
		done
	}
	network "" ""
	sed -i 's/frame = "1514 B"/frame = "614 B"/' plan.toml
	sleep 2
	wait_quiet
	all | sed 's/ tentative//' >before
	expect 0 apply --no-sync
	expect 0 in_a ip link show rm
	says "mtu 600"
	expect 0 apply --no-sync --check
	expect 0 nsenter --net=/run/netns/vm-a rtwire revert ra
	sleep 2
	wait_quiet
	all | sed 's/ tentative//' >after
	cmp before after || {
		diff before after || true
		fail "not as before"
	}
}
