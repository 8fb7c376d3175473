# How far SoC come from their grid: by launch time (ETF), by a loop that spins, and by one that only sleeps; idle, and beside
# a thread that floods the same interface. One managing and one controlled node, 1 ms, seen at the controlled node's interface.
# No baselines: a few ns of deviation are another with every build. What must hold is held here.

# network WAY: /tmp/mn.toml whose SoC leave so, /tmp/cn.toml.
network() {
	path=user
	case $1 in
	launch) soc=launch spin=0 ;;
	launch_driver) soc=launch spin=0 path=driver ;;
	spin) soc=spin spin=100 ;;
	sleep) soc=spin spin=0 ;;
	esac
	powerlink_cell "1 ms" "path = \"$path\"
		priority = 60
		soc = \"$soc\"
		soc-priority = 3
		spin = \"$spin us\"" 'path = "user"'
}

# one WAY LOAD CYCLES: prints its figures.
one() {
	network "$1"
	ip netns exec vm-b rtwire powerlink cn /tmp/cn.toml >/dev/null 2>&1 &
	cn=$!
	ip netns exec vm-a rtwire powerlink mn /tmp/mn.toml --json >/tmp/mn.json 2>/tmp/mn.log &
	mn=$!
	for _ in $(seq 20); do
		sleep 1
		! tail -n 1 /tmp/mn.json | grep -q '"operational":true' || break
	done
	tail -n 1 /tmp/mn.json | grep -q '"operational":true' || fail "$1, $2: $(tail -n 1 /tmp/mn.json) $(cat /tmp/mn.log)"
	flood=
	if [ "$2" = load ]; then
		ip netns exec vm-a bash -c 'exec 3>/dev/udp/10.7.0.2/9; text=$(printf "%01000d" 0); while :; do printf %s "$text" >&3; done' 2>/dev/null &
		flood=$!
		sleep 0.2
	fi
	in_b rtwire powerlink monitor rb --json --duration "$3ms" --every "$3ms" >/tmp/seen.json || fail "$(cat /tmp/seen.json)"
	[ -z "$flood" ] || kill $flood
	kill $mn $cn
	wait $mn $cn $flood 2>/dev/null || true
	figures=$(head -n 1 /tmp/seen.json |
		sed -n 's/.*"deviation_ns":{"min":\([0-9]*\),"p50":\([0-9]*\),"p99":\([0-9]*\),"p999":\([0-9]*\),"max":\([0-9]*\),"samples":\([0-9]*\)}.*"missing":\([0-9]*\).*/p50 \2 p99 \3 p99.9 \4 max \5 ns, \6 intervals, \7 missing/p')
	[ -n "$figures" ] || fail "no figures: $(head -c 2000 /tmp/seen.json)"
	launched=$(tail -n 1 /tmp/mn.json | sed -n 's/.*"soc_launch":\({[^}]*}\).*/, \1/p')
	echo "@@ note $1, $2: $figures$launched"
	p99=$(echo "$figures" | cut -d' ' -f4)
	grep -q '"left_operational":0' /tmp/mn.json || fail "$1, $2: the network did not stay operational: $(tail -n 1 /tmp/mn.json)"
	case $launched in
	'' | *'"by_loop":0,"dropped":0'*) ;;
	*) [ "$2" = load ] || fail "$1, $2: not every SoC left by launch time: $launched" ;;
	esac
}

test_deviation() {
	# Figures of some thousand cycles, and the load, take minutes: only where they are asked for.
	cycles=500 loads=idle
	[ "$LAB_MODE" = measure ] || cycles=3000 loads="idle load"
	launch_pair
	etf 50000
	for load in $loads; do
		one sleep "$load" $cycles
		slept=$p99
		one spin "$load" $cycles
		one launch_driver "$load" $cycles
		one launch "$load" $cycles
		[ "$p99" -le "$slept" ] || fail "launch, $load: p99 $p99 ns, of a loop that sleeps $slept ns"
	done
}
