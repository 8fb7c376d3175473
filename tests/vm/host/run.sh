# Starting a guest, and judging what it says. Sourced by scripts/vm.

CARDS=(-netdev hubport,id=p0,hubid=0 -device e1000e,netdev=p0,mac=52:54:00:00:00:01
	-netdev hubport,id=p1,hubid=0 -device e1000e,netdev=p1,mac=52:54:00:00:00:02)
# Only where time is not virtual: one more card moves every figure.
VIRTIO=(-netdev hubport,id=p2,hubid=1 -device virtio-net-pci,netdev=p2,mac=52:54:00:00:00:03
	-netdev hubport,id=p3,hubid=1 -device virtio-net-pci,netdev=p3,mac=52:54:00:00:00:04)

# Of the kernel's command line. `norandmaps`: QEMU 7.2 translates a program anew wherever its addresses are others. With the same ones each
# time, programs start two to three times as fast. `mitigations=off`: what hides one program's secrets from another costs a tenth of the time,
# and no test is about it.
FASTER="norandmaps mitigations=off"

# guest VERSION COMMAND-LINE QEMU-ARGUMENTS…: runs one to its end, its console on standard output.
guest() {
	local version=$1 line=$2
	shift 2
	modules_archive "$version"
	# Two guests of one version may be running.
	local image=$WORK/image-$version-$BASHPID.cpio
	cat "$(image "$version")" "$WORK/payload.cpio" "$WORK/modules-$version.cpio" >"$image"
	timeout "${RTWIRE_VM_TIMEOUT:-3600}" "${QEMU[@]}" -machine q35,hpet=off -m 1G -nodefaults -display none \
		-no-reboot -kernel "$CACHE/$version/vmlinux" -initrd "$image" \
		-append "console=ttyS0 quiet loglevel=1 panic=-1 tsc=reliable $line" "${CARDS[@]}" "$@" \
		2> >(grep -v 'is not connected to host network' >&2)
}

# functional VERSION ONLY: all suites on two virtual cores; one line a test, and the whole output of those that fail.
# With RTWIRE_VM_THREAD=single the cores take turns in one thread of the emulator. With a thread for each, a core now and then runs an
# instruction that the kernel on the other core has just replaced (`Oops: int3`: docs/kernel-lab.md). A kernel that comes up replaces
# many, so one that dies before the first test is started again.
functional() {
	local start code
	echo "Linux $1, two cores$([ "${RTWIRE_VM_THREAD:-multi}" = multi ] || echo ", in turns")"
	for start in first second last; do
		code=0
		guest "$1" "$FASTER lab.mode=functional lab.only=$2 lab.seed=${RTWIRE_VM_SEED:-$(date +%s)} \
lab.moments=${RTWIRE_VM_MOMENTS:-100} lab.plans=${RTWIRE_VM_PLANS:-6} lab.foreign=${RTWIRE_VM_FOREIGN:-30} lab.loads=${RTWIRE_VM_LOADS:-200} lab.frames=${RTWIRE_VM_FRAMES:-1000000}" -accel tcg,thread=${RTWIRE_VM_THREAD:-multi} -cpu max -smp 2 -serial stdio "${VIRTIO[@]}" </dev/null |
			sed -u 's/\r//g' | judge || code=$?
		[ $code = 2 ] && [ $start != last ] || return $code
	done
}

# virtual VERSION COMMAND-LINE: a guest of one core whose time is the count of its instructions.
virtual() {
	guest "$1" "$2 nokaslr norandmaps random.trust_cpu=off" \
		-accel tcg,thread=single -smp 1 -cpu max,rdrand=off,rdseed=off -icount shift=0,sleep=off \
		-rtc base=2025-01-01,clock=vm -seed 1 -serial stdio </dev/null | sed -u 's/\r//g'
}

# bench VERSION NAME TIME ARGUMENTS…: one measurement, everything that it says.
bench() {
	local line more
	more=${*:4}
	line="lab.mode=bench lab.only=$2 lab.more=${more// /,}"
	case $3 in
	virtual) virtual "$1" "$line" ;;
	*)
		guest "$1" "$line lab.time=real" -accel tcg,thread=multi -cpu max -smp 2 \
			-serial stdio </dev/null | sed -u 's/\r//g'
		;;
	esac
}

# measure VERSION ONLY VERB: in virtual time, held against the baselines.
measure() {
	echo "Linux $1, virtual time"
	virtual "$1" "lab.mode=measure lab.only=$2" | tee "$WORK/log" | judge || return 1
	local now=$WORK/values baseline
	baseline=$VM/baselines/$(cut -d. -f1,2 <<<"$1").tsv
	{
		echo "# kernel $1"
		echo "# qemu $(qemu-system-x86_64 --version | sed -n 's/.*version \([^ ]*\).*/\1/p')"
		echo "# $(rustc --version | cut -d' ' -f1,2)"
		# Only of all measurements together: with one alone the others' programs are not there.
		[ -n "$2" ] || echo "# programs $(cd "$WORK/payload/lab" && find bin measure -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)"
		sed -n 's/^@@ value //p' "$WORK/log" | awk '{ print $1 "\t" $2 "\t" $3 }'
	} >"$now"
	if [ "$3" = baseline ]; then
		mkdir -p "$VM/baselines"
		# With one measurement alone the figures of the others stay.
		if [ -n "$2" ] && [ -e "$baseline" ]; then
			awk -F'\t' 'NR == FNR { if (!/^#/) new[$1] = 1; next } !/^#/ && !($1 in new)' "$now" "$baseline" >>"$now"
		fi
		cp "$now" "$baseline"
		echo "written to $baseline"
	else
		compare "$now" "$baseline" "$2"
	fi
}

# repeat VERSION ONLY: twice in virtual time; every figure must be the same to the bit.
repeat() {
	echo "Linux $1, virtual time, twice"
	local time
	for time in 1 2; do
		virtual "$1" "lab.mode=measure lab.only=$2" | tee "$WORK/log" | judge || return 1
		sed -n 's/^@@ value //p' "$WORK/log" >"$WORK/values$time"
	done
	if diff "$WORK/values1" "$WORK/values2"; then
		echo "ok      $(wc -l <"$WORK/values1") figures are the same to the bit"
	else
		echo "FAILED  figures differ between two runs of the same programs"
		return 1
	fi
}

# compare NOW BASELINE ONLY: with the baseline's kernel, QEMU and compiler a median or a minimum may be off by 0.5 %, with
# others by 10 %: the instructions are others then. Maxima, spreads and what is under load depend on how load and measured
# path fall together, which is another with every build: shown, not judged. With the baseline's own programs nothing at all
# may be off: virtual time repeats to the bit.
compare() {
	[ -e "$2" ] || {
		echo "FAILED: there is no baseline $2; \`scripts/vm baseline\` writes it"
		return 1
	}
	awk -F'\t' -v only="$3" '
		/^# programs / { programs[FILENAME] = $0; next }
		/^#/ { head[FILENAME] = head[FILENAME] $0 "\n"; next }
		FILENAME == ARGV[2] { was[$1] = $2; next }
		{ now[$1] = $2; unit[$1] = $3; order[++count] = $1 }
		END {
			same = head[ARGV[1]] == head[ARGV[2]]
			bits = same && programs[ARGV[1]] != "" && programs[ARGV[1]] == programs[ARGV[2]]
			limit = bits ? 0 : same ? 0.5 : 10
			if (bits) printf "The baseline'"'"'s own programs: every figure must be the same to the bit.\n"
			if (!same) printf "Not the baseline'"'"'s kernel, QEMU or compiler: figures may be off by 10 %% instead of 0.5 %%.\n"
			for (i = 1; i <= count; i++) {
				name = order[i]
				if (!(name in was)) { printf "FAILED  %s = %s %s has no baseline\n", name, now[name], unit[name]; bad = 1; continue }
				off = was[name] == now[name] ? 0 : (was[name] == 0 ? 100 : 100 * (now[name] - was[name]) / was[name])
				if (off < 0) size = -off; else size = off
				judged = bits || (name ~ /\/(min|p50)$/ && name !~ /\/load\//)
				word = !judged ? "shown " : (size > limit ? "FAILED" : "ok    ")
				printf "%s  %s = %s %s (%+.2f %%)\n", word, name, now[name], unit[name], off
				if (judged && size > limit) bad = 1
			}
			for (name in was) if (only == "" && !(name in now)) { printf "FAILED  %s is in the baseline and was not measured\n", name; bad = 1 }
			exit bad
		}' "$1" "$2"
}

# judge: turns what the guest says into lines for people; fails if a test failed or the guest did not reach its end, with 2 if
# its kernel did not even come up.
judge() {
	local at_once=()
	# mawk would read 4096 bytes before it looks at the first line: some minutes of a guest's words.
	if awk -W version </dev/null 2>&1 | grep -q mawk; then at_once=(-W interactive); fi
	awk "${at_once[@]}" '
		/^@@ ok / { print "ok      " $3 " (" $4 " s)"; passed++; tests += $3 != "kernel-log"; fflush(); next }
		/^@@ not-ok / { print "FAILED  " $3 " (" $4 " s)"; failed++; tests++; showing = 1; fflush(); next }
		/^@@ end-of-output/ { showing = 0; next }
		/^@@ note / { sub(/^@@ note /, ""); print "        " $0; fflush(); next }
		/^@@ begin/ { began = 1; next }
		/^@@ end/ { ended = 1; next }
		/^@@ / { next }
		showing || !passed { print "        " $0 }
		END {
			if (!began) { print "FAILED  the kernel did not come up"; exit 2 }
			if (!ended) { print "FAILED  the guest did not reach its end (crashed, or took too long)"; failed++ }
			else if (!tests) { print "FAILED  no test has that name"; failed++ }
			printf "%d passed, %d failed\n", passed, failed
			exit failed > 0
		}'
}

# shell VERSION: the guest on this terminal, the folder at hand read-only under /host.
shell() {
	guest "$1" lab.shell -accel tcg,thread=multi -cpu max -smp 2 -serial mon:stdio \
		-fsdev local,id=host,path="$PWD",security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=host,mount_tag=host
}
