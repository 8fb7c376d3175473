# rtwire's own programs over the kernel module `uman`: `rtwire run`, POWERLINK stations, doctor. The module's counters and the other
# end of the cable judge.
. /lab/uman-lib.sh

# both: the cable, with uman1 above ra in vm-a and uman0 above rb in vm-b.
both() {
	above "$@"
	in_a rtwire uman add uman1 --link ra --mode direct
	in_b rtwire uman set uman0 --mode direct
	ip -n vm-a link set uman1 up
}

# Two streams one way, of which one is read as the newest value, and one back. All of one priority: the module keeps no order of several.
network() {
	cat >/tmp/two.toml <<-TOML
		[network]
		name = "two hosts"
		[defaults]
		tick-error = "20 ms"
		link-rate = "1 Gbit/s"
		[[host]]
		name = "A"
		latency = "200 ms"
		[[host]]
		name = "B"
		latency = "200 ms"
		[[link]]
		ends = ["A", "B"]
		[[stream]]
		name = "there"
		talker = "A"
		listeners = ["B"]
		payload = "64 B"
		interval = "20 ms"
		priority = 3
		[[stream]]
		name = "newest"
		talker = "A"
		listeners = ["B"]
		payload = "1000 B"
		interval = "40 ms"
		priority = 3
		semantics = "newest"
		[[stream]]
		name = "back"
		talker = "B"
		listeners = ["A"]
		payload = "200 B"
		interval = "20 ms"
		priority = 3
	TOML
}

# of END STREAM KEY FILE: a number of a stream's row among the talkers or listeners of a report.
of() {
	awk -v end="\"$1\": [" -v stream="\"stream\": \"$2\"" -v key="\"$3\":" '
		index($0, end) { inside = 1 }
		inside && /^  [\]]/ { inside = 0 }
		inside && /^    [{]/ { row = "" }
		inside { row = row $0 }
		inside && /^    [}]/ && index(row, stream) {
			sub(".*" key " *\"?", "", row)
			sub("\"?[,}].*", "", row)
			print row
			exit
		}' "$4"
}

running() { grep -q running "$1"; }

# ran CODE FILE: a run that a slow machine may call late, but no worse.
ran() { case $1 in 0 | 1 | 4) ;; *) fail "run ended with $1: $(cat "$2.said" "$2")" ;; esac; }

test_a_run_goes_through_the_module() {
	both
	network
	path="--path uman --receive-path uman"
	# shellcheck disable=SC2086
	in_b rtwire run /tmp/two.toml --host B --interface rb $path --duration 30s --json >/tmp/b 2>/tmp/b.said &
	listener=$!
	soon running /tmp/b.said || fail "$(cat /tmp/b.said)"
	# By the name of the device itself, at the other end.
	code=0
	# shellcheck disable=SC2086
	in_a rtwire run /tmp/two.toml --host A --interface uman1 $path --duration 5s --json >/tmp/a 2>/tmp/a.said || code=$?
	ran $code /tmp/a
	# A second program gets no device that has one.
	# shellcheck disable=SC2086
	expect 3 in_b rtwire run /tmp/two.toml --host B --interface rb $path --duration 1s
	says "another program is attached to \`uman0\`"
	kill -INT $(ip netns pids vm-b | grep -v "^$listener$") 2>/dev/null || true
	code=0
	wait $listener || code=$?
	ran $code /tmp/b
	for report in /tmp/a /tmp/b; do
		grep -q '"path": "uman"' $report || fail "$(cat $report)"
	done
	for stream in there newest; do
		is "$stream: receive path" "$(of listeners $stream receive_path /tmp/b)" uman
		sent=$(of talkers $stream frames_sent /tmp/a)
		[ "$sent" -ge 30 ] || fail "$stream: $sent sent: $(cat /tmp/a)"
		is "$stream: lost" "$(of listeners $stream frames_lost /tmp/b)" 0
	done
	is "there: received" "$(of listeners there frames_received /tmp/b)" "$(of talkers there frames_sent /tmp/a)"
	back=$(of listeners back frames_received /tmp/a)
	[ "$back" -ge 30 ] || fail "$back came back: $(cat /tmp/a)"
	# The module has carried them.
	all=$(($(of talkers there frames_sent /tmp/a) + $(of talkers newest frames_sent /tmp/a)))
	[ "$(counter ring_stored)" -ge $all ] || fail "the ring has had $(counter ring_stored) of $all"
	sent=$(in_a ethtool -S uman1 | awk '$1 == "tx_direct:" { print $2 }')
	[ "$sent" -ge $all ] || fail "uman1 has sent $sent of $all"
	leave
}

# interface LINE…: the cell with these lines in its stations.
cell() {
	powerlink_cell "20 ms" "$1" "$2" 'response-timeout = "15 ms"'
}

# last KEY FILE: a number of the newest state that a station has told.
last() { grep '^{' "$2" | tail -n 1 | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

operational() { grep '^{' "$1" | tail -n 1 | grep -q '"state":"Operational".*"operational":true'; }

# station ROLE END FILE LINE…: runs one; its id in $station.
station() {
	ip netns exec "vm-$2" rtwire powerlink "$1" "/tmp/$1.toml" --json "${@:4}" >"$3" 2>"$3.said" &
	station=$!
}

test_a_controlled_node_answers_in_the_kernel() {
	both
	cell '' 'path = "uman"'
	station cn b /tmp/cn
	cn=$station
	station mn a /tmp/mn --path uman
	mn=$station
	for said in /tmp/cn /tmp/mn; do
		soon grep -q "in the kernel module uman, at uman" $said.said || fail "$(cat $said.said)"
	done
	soon operational /tmp/mn || fail "never operational: $(tail -n 1 /tmp/mn) $(tail -n 1 /tmp/cn)"
	sleep 3
	# What the module has answered the program has not sent again.
	sent=$(last sent_by_driver /tmp/cn)
	[ "$sent" -ge 50 ] || fail "answered by the module: ${sent:-none}: $(tail -n 1 /tmp/cn)"
	replies=$(counter replies)
	[ "$replies" -ge "$sent" ] || fail "$replies replies of the module, $sent told"
	# What is left over are its answers in the asynchronous phase.
	written=$(($(counter tx_direct) - $(counter replies)))
	[ $written -lt $((sent / 2)) ] || fail "the program has sent $written frames itself, the module $sent"
	# A program that hangs is answered for as long as its watchdog allows, and no longer.
	# Where this slow guest has lost the node just then, nobody asks it: once more.
	ends=$(counter replies_lease_ended)
	for _ in 1 2 3; do
		kill -STOP $cn
		sleep 2
		before=$(counter replies)
		sleep 2
		is "replies for a program that hangs" "$(counter replies)" "$before"
		told=$(counter replies_lease_ended)
		kill -CONT $cn
		soon operational /tmp/mn || fail "not operational again: $(tail -n 1 /tmp/mn)"
		[ "$told" = "$ends" ] || break
		sleep 2
	done
	[ "$told" != "$ends" ] || fail "the end of the lease is not counted: $(tail -n 1 /tmp/mn)"
	kill -INT $cn $mn
	wait $cn || true
	wait $mn || true
	# Nothing answers for a station that has ended.
	grep -q "program none" /sys/kernel/debug/uman/devices || fail "$(cat /sys/kernel/debug/uman/devices)"
	leave
}

soc_sent() { in_a ethtool -S uman1 | awk '$1 == "cyclic_sent:" { print $2 }'; }

soc_since() { [ "$(soc_sent)" -gt "$1" ]; }

test_a_managing_nodes_soc_leaves_by_the_modules_timer() {
	both
	powerlink_cell "100 ms" 'path = "uman"
		soc-margin = "40 ms"' 'path = "uman"' 'response-timeout = "40 ms"'
	station cn b /tmp/cn
	cn=$station
	station mn a /tmp/mn
	mn=$station
	soon grep -q "SoC sent by the module at their instants, handed over 40020 µs ahead" /tmp/mn.said || fail "$(cat /tmp/mn.said)"
	soon operational /tmp/mn || fail "never operational: $(tail -n 1 /tmp/mn)"
	handed=$(last handed_over /tmp/mn)
	started /tmp/times b uman-test soc rb 60 10000
	wait $started
	after=$(last handed_over /tmp/mn)
	[ $((after - handed)) -ge 50 ] || fail "SoC handed over to the module: $handed, then $after: $(tail -n 1 /tmp/mn)"
	lost=$(last dropped /tmp/mn)
	[ "$lost" -le 3 ] || fail "$lost SoC lost"
	sent=$(soc_sent)
	# One may be on its way, and the state is told once a second.
	[ "$sent" -ge $((after - lost - 1)) ] && [ "$sent" -le $((after + 15)) ] || fail "$sent SoC sent by the module, $after handed over"
	# Never one by the loop and by the module.
	is "SoC" "$(tail -n 1 /tmp/times)" "received=60 repeated=0"
	# A program that hangs sends none: at most the one that it has handed over.
	kill -STOP $mn
	sleep 1
	sent=$(soc_sent)
	sleep 1
	is "SoC for a program that hangs" "$(soc_sent)" "$sent"
	kill -CONT $mn
	soon soc_since "$sent" || fail "no SoC by the module behind a stop"
	kill -INT $mn $cn
	wait $mn || true
	wait $cn || true
	leave
}

test_what_is_missing_is_named_with_the_way_to_it() {
	pair
	rmmod uman 2>/dev/null || true
	network
	cell '' 'path = "uman"'
	expect 3 in_b rtwire run /tmp/two.toml --host B --interface rb --path uman --duration 1s
	says "the kernel module \`uman\` is not loaded"
	expect 3 in_b rtwire powerlink cn /tmp/cn.toml --duration 1s
	says "rtwire uman add uman0 --link rb"
	load
	for path in "--path uman" "--receive-path uman"; do
		# shellcheck disable=SC2086
		expect 3 in_b rtwire run /tmp/two.toml --host B --interface rb $path --duration 1s
		says "interface \`rb\` has no path \`uman\`: no uman device is above it; make one with \`rtwire uman add uman0 --link rb\`"
	done
	expect 3 in_b rtwire powerlink cn /tmp/cn.toml --duration 1s
	says "no uman device is above it"
	# Frames of several classes would lose their order.
	in_b rtwire uman add uman0 --link rb
	ip -n vm-b link set uman0 up
	in_b tc qdisc add dev rb root tbf rate 100mbit burst 10k latency 10ms
	expect 2 in_b rtwire run /tmp/two.toml --host B --interface uman0 --path uman --duration 1s
	says "tbf"
	leave
}

test_doctor_names_the_module_and_its_device() {
	pair
	rmmod uman 2>/dev/null || true
	# Its exit code is about this machine, which is none to keep deadlines.
	in_b rtwire doctor rb >/tmp/doctor 2>&1 || true
	grep -q "kernel module uman is not loaded" /tmp/doctor || fail "$(cat /tmp/doctor)"
	load
	in_b rtwire doctor rb >/tmp/doctor 2>&1 || true
	grep -q "no device above .rb." /tmp/doctor || fail "$(cat /tmp/doctor)"
	in_b rtwire uman add uman0 --link rb --mode direct
	in_b rtwire doctor rb --json >/tmp/doctor 2>&1 || true
	grep -q "ip link set uman0 up" /tmp/doctor || fail "$(cat /tmp/doctor)"
	in_b ip link set uman0 up
	for name in rb uman0; do
		in_b rtwire doctor $name --json >/tmp/doctor 2>&1 || true
		grep -q "version 1 of its interface" /tmp/doctor || fail "$(cat /tmp/doctor)"
		grep -q "is its device.*mode direct" /tmp/doctor || fail "$(cat /tmp/doctor)"
	done
	leave
}
