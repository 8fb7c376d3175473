# `rtwire apply` and `rtwire revert`, killed at random moments: whatever was done by then, one more `rtwire revert` leaves the
# interface byte for byte as it was. The seed is printed; RTWIRE_VM_SEED repeats its sequence of moments.

. /lab/suites/apply.sh

LAB_SEED=${LAB_SEED:-1}
LAB_MOMENTS=${LAB_MOMENTS:-100}

# Nobody writes into it: what reads from it waits, by bash alone, since starting a program takes as long as a change does.
[ -p /tmp/silence ] || mkfifo /tmp/silence
exec 7<>/tmp/silence

# wait_us MICROSECONDS
wait_us() {
	local seconds
	printf -v seconds '%d.%06d' $(($1 / 1000000)) $(($1 % 1000000))
	read -r -t "$seconds" -u 7 _ || true
}

# killed_after MICROSECONDS COMMAND…: true if it was still running then.
killed_after() {
	local after=$1 code=0
	shift
	"$@" >/tmp/said 2>&1 &
	local process=$!
	wait_us "$after"
	kill -9 $process 2>/dev/null || true
	wait $process 2>/dev/null || code=$?
	[ $code = 137 ]
}

# draw BELOW: a random number into $drawn; not printed, since a subshell's sequence is another.
draw() { drawn=$(((RANDOM << 15 | RANDOM) % $1)); }

# The same as `looks`, with as few programs as show it: it is looked at after every moment.
looks_quickly() {
	in_a bash -c '
		ip -d address
		ip route
		tc qdisc show dev ra
		for what in k l c; do ethtool -$what ra; done
		grep -r . /proc/sys/net/ipv[46]/conf
	' 2>&1 || true
}

# takes MICROSECONDS: an apply takes so long now, and its first change comes as much earlier or later.
takes() {
	begin=$((begin * $1 / whole))
	whole=$1
}

# recorded: whether a change was noted, and so perhaps made.
recorded() { grep -q '"change"' "$RTWIRE_STATE_DIRECTORY"/*.undo 2>/dev/null; }

# moments NUMBER APPLY-ARGUMENTS…: that many killed applies, and a quarter as many killed reverts.
moments() {
	local number=$1 within=0 through=0 reverts=0 begin=0 whole start back record process
	shift
	RANDOM=$((LAB_SEED % 32768))
	looks_quickly >before
	# How long the programs take here, and when the first change is made.
	start=${EPOCHREALTIME/./}
	ip netns exec vm-a rtwire apply plan.toml --host A --interface ra --no-sync "$@" >/tmp/said 2>&1 &
	process=$!
	until recorded || ! kill -0 $process 2>/dev/null; do wait_us 20000; done
	begin=$((${EPOCHREALTIME/./} - start))
	wait $process || fail "apply ended with $?: $(cat /tmp/said)"
	whole=$((${EPOCHREALTIME/./} - start))
	start=${EPOCHREALTIME/./}
	expect 0 ip netns exec vm-a rtwire revert ra
	back=$((${EPOCHREALTIME/./} - start))
	for moment in $(seq "$number"); do
		# Anywhere, a little longer than it takes; every other one from the first change on.
		if [ $((moment % 2)) = 0 ]; then draw $((whole * 11 / 10)); else
			draw $((whole - begin))
			drawn=$((drawn + begin))
		fi
		# The machine is not always as fast as in the first run: moments follow it.
		if ! killed_after $drawn \
			ip netns exec vm-a rtwire apply plan.toml --host A --interface ra --no-sync "$@"; then
			through=$((through + 1))
			[ $drawn -ge $whole ] || takes $drawn
		elif recorded; then
			within=$((within + 1))
			[ $drawn -lt $whole ] || takes $((drawn * 11 / 10))
		fi
		if [ $((moment % 4)) = 1 ]; then
			draw "$back"
			killed_after $drawn ip netns exec vm-a rtwire revert && reverts=$((reverts + 1))
		fi
		expect 0 in_a rtwire revert
		looks_quickly >after
		cmp -s before after || {
			diff before after || true
			fail "moment $moment of seed $LAB_SEED: not as before; the last revert said: $output"
		}
		record=$(ls "$RTWIRE_STATE_DIRECTORY"/*.undo 2>/dev/null || true)
		[ -z "$record" ] || fail "moment $moment of seed $LAB_SEED: $record is left"
	done
	echo "@@ note seed $LAB_SEED: $number moments of $((whole / 1000)) ms, $within amid the changes, $through behind the end;" \
		"$reverts reverts killed too"
}

GATES='gates = "unlimited"'
TIMED='schedule = "time-triggered"
	jitter = "10 us"'

test_priorities_and_a_limit() {
	network "" ""
	pair 4
	moments $((LAB_MOMENTS / 3 + LAB_MOMENTS % 3))
}

test_gates() {
	network "$GATES" "$TIMED"
	pair 4
	moments $((LAB_MOMENTS / 3))
}

test_one_queue_with_less() {
	network "$GATES" "$TIMED"
	pair
	moments $((LAB_MOMENTS / 3)) --fallback
}
