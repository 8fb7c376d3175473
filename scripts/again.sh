# A second look at whole-system tests that failed. Sourced by scripts/test and scripts/vm.
# These tests keep real time. A machine that stands still for some milliseconds, or that runs something else beside them, can
# break what they measure. So a test that fails is run again, alone, twice: what the code broke fails again. A test that
# passes both times is named at the end as unsteady, with its first output above: it is a fault to be found, in the test or in the code.
# Unit tests, tests of the crates without I/O, and documents depend on no time: they get no second look. Nor do many failures at
# once. Random cases stay the same: by their seed.

AGAIN_AT_MOST=${RTWIRE_SECOND_LOOKS:-4}

# failed_tests LOG: of the output of `cargo test`, a line `TARGET<tab>TEST` for each test that failed, and `TARGET<tab>` for a target that
# ended without a list of failures. TARGET is what cargo says to run it again.
failed_tests() {
	awk '
		/^failures:$/ { count = 0; listing = 1; next }
		listing && /^    [^ ]+$/ { name[++count] = $1; next }
		listing && /^$/ { next }
		/^error: test failed, to rerun pass `/ || /^error: doctest failed, to rerun pass `/ {
			target = $0
			sub(/^[^`]*`/, "", target)
			sub(/`.*/, "", target)
			if (!count) print target "\t"
			for (i = 1; i <= count; i++) print target "\t" name[i]
			count = 0
		}
		{ listing = 0 }' "$1"
}

# cargo_tests ARGUMENTS…: `cargo test` with them, and a second look at what failed.
cargo_tests() {
	again_log=$(mktemp)
	again_code=$(mktemp)
	{
		code=0
		CARGO_TERM_COLOR=never cargo test "$@" 2>&1 || code=$?
		echo "$code" >"$again_code"
	} | tee "$again_log"
	code=$(cat "$again_code")
	code=${code:-1}
	rm -f "$again_code"
	# 101: all targets ran, and tests failed. Anything else ended cargo itself.
	if [ "$code" = 101 ]; then
		failed_tests "$again_log" >"$again_log.failed"
		second_look "$again_log.failed" && code=0
	fi
	rm -f "$again_log" "$again_log.failed" "$again_log.failed.again"
	return "$code"
}

# second_look LIST: runs the failed tests again, alone; false unless each of them passes twice.
second_look() {
	failures=$(wc -l <"$1")
	if [ "$failures" = 0 ] || [ "$failures" -gt $AGAIN_AT_MOST ]; then
		return 1
	fi
	# One that depends on no time, or whose name is not known, decides already.
	if grep -qv -- ' --test [^	]*	.' "$1" ||
		grep -qE -- '-p rtwire-(wire|describe|plan|sim|measure|powerlink) ' "$1"; then
		return 1
	fi
	while IFS='	' read -r target name; do
		for _ in first second; do
			echo "=== again, alone: $target $name"
			second_code=0
			# shellcheck disable=SC2086 # The target is several arguments.
			cargo test --release --locked $target -- --exact "$name" --nocapture </dev/null >"$1.again" 2>&1 || second_code=$?
			cat "$1.again"
			[ "$second_code" = 0 ] && grep -q '^test result: ok\. 1 passed' "$1.again" || return 1
		done
		echo "UNSTEADY: $name ($target) failed beside others and passed twice alone"
		printf 'unsteady: %s\t-\tunsteady\n' "$name" >>"$STAGES"
	done <"$1"
}

# failed_in_guest LOG: of the kernel lab's output for one kernel, the failed tests as `SUITE/TEST`; nothing if the guest did not
# reach its end, or its kernel complained.
failed_in_guest() {
	awk '
		/^FAILED  (the |no |kernel-log)/ { dead = 1 }
		/^FAILED  / { name[++count] = $2 }
		END { if (!dead) for (i = 1; i <= count; i++) print name[i] }' "$1"
}
