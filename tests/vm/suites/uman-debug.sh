# The kernel module `uman` on a kernel with checks of its own (tests/vm/debug.config): only `RTWIRE_VM_KERNELS=debug` has them.
. /lab/uman-lib.sh

FAILSLAB=/sys/kernel/debug/failslab

# failing EVERY COMMAND…: that program alone, with one in EVERY of its allocations refused; at most 20 s.
failing() {
	every=$1
	shift
	[ -d $FAILSLAB ] || fail "this kernel refuses no allocations: RTWIRE_VM_KERNELS=debug"
	echo 1 >$FAILSLAB/task-filter
	echo 0 >$FAILSLAB/verbose
	echo N >$FAILSLAB/ignore-gfp-wait
	echo 0 >$FAILSLAB/space
	echo "$every" >$FAILSLAB/interval
	echo 100 >$FAILSLAB/probability
	echo -1 >$FAILSLAB/times
	in_b timeout 20 sh -c 'echo 1 >/proc/self/make-it-fail; exec "$@"' failing "$@" >/tmp/failing 2>&1 || true
	echo 0 >$FAILSLAB/probability
	! grep -qi 'cannot allocate memory\|out of memory' /tmp/failing || refused=$((refused + 1))
}
refused=0

test_the_kernel_checks() {
	grep -q ' kasan_report$' /proc/kallsyms || fail "no KASAN: RTWIRE_VM_KERNELS=debug"
	grep -q ' lockdep_init_task$\| lock_acquire$' /proc/kallsyms || fail "no lockdep"
	[ -e /sys/kernel/debug/kmemleak ] || fail "no kmemleak"
	# A lockdep that has given up sees nothing.
	grep -q 'debug_locks: *1' /proc/lockdep_stats || fail "lockdep is off: $(cat /proc/lockdep_stats)"
}

# A device is made, a program is attached, frames are sent: each with the first, the second, … allocation refused.
test_refused_allocations_harm_nobody() {
	pair
	load
	for every in $(seq 2 "${LAB_REFUSALS:-24}"); do
		failing "$every" rtwire uman add uman0 --link rb
		in_b ip link show uman0 >/dev/null 2>&1 || in_b rtwire uman add uman0 --link rb
		ip -n vm-b link set uman0 up
		for mode in qdisc direct; do
			in_b rtwire uman set uman0 --mode $mode
			failing "$every" uman-test write uman0 20
			failing "$every" uman-test send uman0 20
		done
		failing "$every" rtwire uman set uman0 --ethertypes 0x88ab,0x9000
		failing "$every" uman-test cyclic uman0 1000000 20 10 10
		failing "$every" uman-test hostile uman0 100 "$every"
		in_b rtwire uman set uman0 --ethertypes 0x88ab,0x88b5
		# All that was refused is forgotten.
		above_is_alive
		in_b rtwire uman delete uman0
	done
	leave
	[ "$refused" -ge 10 ] || fail "only $refused commands met a refused allocation"
	in_b ip -d link show rb | grep -q 'promiscuity 0' || fail "$(in_b ip -d link show rb)"
}

# A module that cannot be loaded leaves nothing.
test_a_load_that_is_refused_leaves_nothing() {
	pair
	rmmod uman 2>/dev/null || true
	for every in $(seq 2 3 200); do
		failing "$every" insmod /lab/modules/uman.ko
		rmmod uman 2>/dev/null || true
	done
	[ "$refused" -ge 5 ] || fail "only $refused loads met a refused allocation"
	load
	[ -e /dev/uman ] || fail "no device: $(cat /tmp/failing)"
	leave
}
