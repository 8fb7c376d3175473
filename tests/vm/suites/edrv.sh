# The openPOWERLINK driver upon `uman` (kernel/edrv-bridge), driven in the kernel as its stack drives it, and judged by raw sockets at the
# cable's other end. `make test` runs some of these tests (CONTRIBUTING.md).
. /lab/uman-lib.sh

# removals: how often the driver told that its device was removed.
removals() { dmesg | grep -c 'edrv-uman: the device is removed' || true; }

# bridge [PARAMETERS…]: the driver above uman0 in vm-b.
bridge() {
	rmmod edrv_test 2>/dev/null || true
	above
	removals=$(removals)
	in_b insmod /lab/modules/edrv_test.ko "$@"
}

order() { echo "$*" >/sys/module/edrv_test/parameters/command; }

# said NAME: a figure of the harness.
said() { tr ' ' '\n' </sys/module/edrv_test/parameters/said | sed -n "s/^$1=//p"; }

# told NAME COUNT: the figure reaches it.
told() { [ "$(said "$1")" -ge "$2" ]; }

stop() {
	rmmod edrv_test || fail "the driver does not go"
	is "removals told" "$(removals)" "$removals"
	leave
}

sends_in() { # MODE
	bridge mode="$1" "ready_buffers=$2"
	started /tmp/heard a uman-test listen ra 300 3000
	order send 200
	# From the hard interrupt of a timer.
	order cyclic 100 2000
	wait $started
	is "$1: received" "$(tail -n 1 /tmp/heard)" "received=300 torn=0 repeated=0"
	soon told confirmed 300 || fail "$1: $(cat /sys/module/edrv_test/parameters/said)"
	is "$1: handlers called inside of a call" "$(said nested)" 0
	is "$1: refused" "$(said refused)" 0
	stop
}

test_direct_frames_arrive_and_are_told_as_sent() { sends_in direct Y; }

test_frames_by_the_qdisc_arrive_and_are_told_as_sent() { sends_in qdisc N; }

test_netpoll_is_taken_where_the_kernel_has_it() {
	# With PREEMPT_RT, and by the older kernel's veth, it is refused.
	case $LAB_KERNEL in
	*rt*) refused=y ;;
	6.1.*) refused= ;;
	*) refused=y ;;
	esac
	if [ -z "$refused" ]; then
		sends_in netpoll Y
		return
	fi
	bridge
	rmmod edrv_test
	! in_b insmod /lab/modules/edrv_test.ko mode=netpoll 2>/dev/null || fail "netpoll is taken"
	leave
}

test_the_stack_answers_from_its_handler() {
	bridge mode=direct
	order answer
	in_a uman-test ask ra 5 200 2000000 >/tmp/asked
	is "answered" "$(figure answered /tmp/asked)" 200
	is "of two contents" "$(figure torn /tmp/asked)" 0
	is "answered by the stack" "$(said answered)" 200
	stop
}

test_an_automatic_response_lasts_as_long_as_the_stack() {
	bridge mode=direct lease=50
	order automatic
	in_a uman-test ask ra 5 30 2000000 >/tmp/asked
	is "answered" "$(figure answered /tmp/asked)" 30
	is "by the stack" "$(said answered)" 0
	[ "$(said received)" -ge 30 ] || fail "the stack does not see the questions"
	# Not renewed: it ends at the fiftieth.
	in_a uman-test ask ra 5 30 2000000 >/tmp/asked
	is "behind the lease" "$(figure answered /tmp/asked)" 20
	order update
	in_a uman-test ask ra 5 30 2000000 >/tmp/asked
	is "renewed" "$(figure answered /tmp/asked)" 30
	# Another node's question is not answered.
	in_a uman-test ask ra 6 3 2000000 >/tmp/asked
	is "another node's" "$(figure answered /tmp/asked)" 0
	order silent
	sleep 0.2
	in_a uman-test ask ra 5 3 2000000 >/tmp/asked
	is "taken away" "$(figure answered /tmp/asked)" 0
	stop
}

test_groups_reach_the_lower_device() {
	bridge
	order join
	in_b ip maddr show dev rb | grep -q 01:11:1e:00:00:01 || fail "$(in_b ip maddr show dev rb)"
	order part
	! in_b ip maddr show dev rb | grep -q 01:11:1e:00:00:01 || fail "a group is left"
	stop
}

test_wrong_arguments_are_refused() {
	bridge
	order bad
	order send 3
	rmmod edrv_test
	# No such device, no uman device, an unknown mode: a reason each, and nothing is left.
	for wrong in interface=none interface=rb mode=fast lease=0; do
		! in_b insmod /lab/modules/edrv_test.ko $wrong 2>/dev/null || fail "$wrong is taken"
	done
	dmesg | grep -q 'edrv-uman: there is no interface `none` here' || fail "no reason"
	dmesg | grep -q 'it is no uman device' || fail "no reason"
	in_b insmod /lab/modules/edrv_test.ko
	stop
}

test_the_device_may_go_first() {
	bridge mode=direct
	order send 3
	in_b ip link del uman0
	! order send 1 2>/dev/null || fail "sent without a device"
	is "removals told" "$(removals)" $((removals + 1))
	rmmod edrv_test
	leave
}

test_it_comes_and_goes_under_traffic() {
	bridge mode=direct
	in_a sh -c 'while :; do uman-test send ra 500; uman-test ask ra 5 20 1000000; done' >/dev/null 2>&1 &
	traffic=$!
	loads=${LAB_LOADS:-30}
	for _ in $(seq $((loads < 30 ? loads : 30))); do
		order automatic
		order send 5
		rmmod edrv_test
		in_b insmod /lab/modules/edrv_test.ko mode=direct
	done
	kill $traffic
	wait $traffic 2>/dev/null || true
	stop
	! dmesg | grep -E 'BUG|WARNING|Oops|unregister_netdevice: waiting' || fail "the kernel complains"
}
