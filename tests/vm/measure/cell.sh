# The experiment of the kernel-Ethernet source, by whole stations: a managing and a controlled node on veth, cycles of 5 ms and 1 ms,
# idle and beside hackbench. How far are SoC from their grid, by each way of the managing node? How long does a PRes take, by each way of the
# controlled node? A packet socket at the bridge between them looks on. Minutes of a guest's time, so only where it is asked for:
# `scripts/vm bench cell virtual`, or `real`, which shows the emulator's stalls.
. /lab/uman-lib.sh
. /lab/load-lib.sh

CYCLES=500

# modes: the module's transmit modes that this kernel and veth have.
modes() {
	echo direct qdisc
	realtime_kernel || echo netpoll
}

virtual_time() { [ "${LAB_TIME:-virtual}" = virtual ]; }

# bridged: ra in vm-a and rb in vm-b at a bridge in vm-m, which has their peers pa and pb.
bridged() {
	# A test that failed has left the bridge.
	ip netns del vm-m 2>/dev/null || true
	for end in a b m; do ip netns add vm-$end; done
	ip -n vm-m link add name between type bridge stp_state 0 mcast_snooping 0
	ip -n vm-m link set between up
	for end in a:1:2 b:2:1; do
		name=${end%%:*} numbers=${end#*:}
		ip -n "vm-$name" link add name "r$name" type veth peer name "p$name" netns vm-m
		ip -n vm-m link set "p$name" master between up
		cable "vm-$name" "r$name" "${numbers%:*}" "${numbers#*:}"
	done
}

# tuned: as on a tuned host. Else what a real-time kernel leaves to ksoftirqd, such as a frame's way through the bridge, waits behind the load; and
# khugepaged keeps the processor for milliseconds (real-time kernels have none).
tuned() {
	if ! realtime_kernel; then
		echo never >/sys/kernel/mm/transparent_hugepage/enabled
		return
	fi
	for process in /proc/[0-9]*; do
		case $(cat "$process/comm" 2>/dev/null) in ksoftirqd/*) chrt -f -p 49 "${process#/proc/}" ;; esac
	done
}

# stations MN CN CYCLE: both with these keys, operational.
stations() {
	# In real time an emulated guest stands still for up to 27 ms, and is slow: stations with the usual limits lose each other.
	patience=
	timeout=
	if ! virtual_time; then
		patience="
watchdog = 100"
		timeout="response-timeout = \"$((${3% ms} * 600)) us\""
	fi
	powerlink_cell "$3" "path = \"$1\"$patience" "path = \"$2\"$patience" "$timeout"
	ip netns exec vm-b rtwire powerlink cn /tmp/cn.toml >/dev/null 2>/tmp/cn.log &
	ip netns exec vm-a rtwire powerlink mn /tmp/mn.toml --json >/tmp/mn.json 2>/tmp/mn.log &
	for _ in $(seq 40); do
		sleep 1
		! tail -n 1 /tmp/mn.json | grep -q '"operational":true' || return 0
	done
	fail "never operational: $(tail -n 1 /tmp/mn.json) $(cat /tmp/mn.log /tmp/cn.log)"
}

# controlled_node_yields: where SoC are measured. In the field each station has a processor of its own; here a controlled node that has lost its cycle
# works for 0.7 ms, and a sender of the same priority would wait. No such thing for responses: frames pass the bridge in the sending thread, so a managing
# node that yields would take the controlled node's turn into each of them.
controlled_node_yields() {
	for process in $(ip netns pids vm-b); do
		for thread in /proc/"$process"/task/*; do
			# The policy: 1 is SCHED_FIFO.
			[ "$(sed 's/.*) //' "$thread/stat" | cut -d' ' -f39)" != 1 ] || chrt -f -p 45 "${thread##*/}"
		done
	done
}

# seen CYCLE LOAD: what a packet socket at the managing node's port sees of CYCLES cycles, in /tmp/seen.json.
seen() {
	[ "$2" = idle ] || busy
	time=$((CYCLES * ${1% ms}))
	ip netns exec vm-m rtwire powerlink monitor pa --json --duration "${time}ms" --every "${time}ms" >/tmp/seen.json ||
		fail "$(cat /tmp/seen.json)"
	[ "$2" = idle ] || idle_again
	for end in a b; do
		for process in $(ip netns pids vm-$end); do kill "$process" 2>/dev/null || true; done
	done
	wait
}

# told NAME KEY: the figures of a distribution in /tmp/seen.json.
told() {
	figures=$(head -n 1 /tmp/seen.json |
		sed -n "s/.*\"$2\":{\"min\":\\([0-9]*\\),\"p50\":\\([0-9]*\\),\"p99\":\\([0-9]*\\),\"p999\":\\([0-9]*\\),\"max\":\\([0-9]*\\),\"samples\":\\([0-9]*\\)}.*/\\1 \\2 \\3 \\4 \\5 \\6/p")
	[ -n "$figures" ] || fail "no $2: $(head -c 2000 /tmp/seen.json)"
	# shellcheck disable=SC2086 # six words
	set -- "$1" $figures
	value "cell/$1/p50" "$3" ns
	value "cell/$1/p99" "$4" ns
	value "cell/$1/max" "$6" ns
	value "cell/$1/spread" $(($6 - $2)) ns
	value "cell/$1/samples" "$7" times
}

# below END MODE: the module above that end, in that mode.
below() {
	load
	ip netns exec "vm-$1" rtwire uman add uman0 --link "r$1" --mode "$2"
	ip -n "vm-$1" link set uman0 up
}

soc() { # WAY MN CYCLE LOAD
	stations "$2" user "$3"
	controlled_node_yields
	seen "$3" "$4"
	told "soc/$1/${3% ms}/$4" interval_ns
}

response() { # WAY CN CYCLE LOAD
	stations user "$2" "$3"
	seen "$3" "$4"
	told "response/$1/${3% ms}/$4" latency_ns
}

# each SIDE END COMMAND: every way of one station, each cycle, idle and loaded.
each() {
	[ "$LAB_MODE" = bench ] || return 0
	# Held as in the source; it does nothing in a guest.
	[ ! -e /dev/cpu_dma_latency ] || { exec 9>/dev/cpu_dma_latency && printf '\0\0\0\0' >&9; }
	tuned
	bridged
	loads
	cycles="5 1"
	# In real time, with a cycle of 1 ms, they lose each other all the same.
	virtual_time || cycles=5
	for cycle in $cycles; do
		cycle="$cycle ms"
		for load in idle load; do
			$2 raw_socket user "$cycle" $load
			[ "$2" = soc ] || $2 driver driver "$cycle" $load
			for mode in $(modes); do
				below "$1" "$mode"
				$2 "uman_$mode" uman "$cycle" $load
				ip netns exec "vm-$1" rtwire uman delete uman0
			done
		done
	done
	unload
	ip netns del vm-m
}

test_soc() { each a soc; }

test_response() { each b response; }
