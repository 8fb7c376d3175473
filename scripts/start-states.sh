# Random start states of a host on the kernels of the kernel lab, some at a time, each time noted. Sourced by scripts/test-full.

STATES_NOTE=docs/measurements/test-full.md
STATES_HEAD='## Start states of hosts'
# What a run that is broken off has done until then is noted: some minutes of work are lost at most.
STATES_AT_A_TIME=50

# states_of_hosts NUMBER FIRST-SEED COMMIT: that many on each kernel; ends with the first that does not come back.
states_of_hosts() {
	local left=$1 seed=$2 number said code=0
	local -A cases=() seconds=()
	said=$(mktemp)
	while [ "$left" -gt 0 ] && [ $code = 0 ]; do
		number=$((left < STATES_AT_A_TIME ? left : STATES_AT_A_TIME))
		echo "start states with seeds $seed to $((seed + number - 1))"
		RTWIRE_VM_SEED=$seed RTWIRE_VM_FOREIGN=$number RTWIRE_VM_TIMEOUT=86400 scripts/vm test foreign | tee "$said"
		code=${PIPESTATUS[0]}
		[ -n "${RTWIRE_FULL_SHORT:-}" ] || states_noted "$said" "$2" "$number" "$3"
		left=$((left - number))
		seed=$((seed + number))
	done
	rm "$said"
	return $code
}

# states_noted SAID FIRST-SEED NUMBER COMMIT: one row for each kernel and first seed, with all cases since. Uses `cases` and `seconds`.
states_noted() {
	local series version result rows
	rows=$(mktemp)
	[ ! -e $STATES_NOTE ] || sed -n "/^$STATES_HEAD/,\$ { /^| [0-9]/p }" $STATES_NOTE >"$rows"
	while IFS=$'\t' read -r series version; do
		cases[$version]=$((${cases[$version]:-0} + $3))
		seconds[$version]=$((${seconds[$version]:-0} + $(sed -n "s/^$series\t.* foreign\/any_start_state_comes_back (\([0-9]*\).*/\1/p" "$1" | head -n 1)+0))
		result=FAILED
		if grep -q "^$series	ok .*foreign/" "$1" && ! grep -q "^$series	FAILED" "$1"; then result=passed; fi
		# Fixed words: a version has dots.
		grep -vF "| $version | $2 to " "$rows" >"$rows.new" || true
		printf '| %s | %d to %d | %d | %s | %d m %02d s | %s | %s | %s |\n' "$version" "$2" $(($2 + cases[$version] - 1)) \
			"${cases[$version]}" "$result" $((seconds[$version] / 60)) $((seconds[$version] % 60)) "$4" "$(date -u +%Y-%m-%d)" \
			"$(nproc) cores, Linux $(uname -r | cut -d- -f1)" >>"$rows.new"
		mv "$rows.new" "$rows"
	done < <(sed -n 's/^\([0-9.]*\)\tLinux \([^,]*\),.*/\1\t\2/p' "$1" | sort -u)
	{
		[ ! -e $STATES_NOTE ] || sed "/^$STATES_HEAD/,\$d" $STATES_NOTE
		echo "$STATES_HEAD"
		echo
		echo "\`scripts/test-full start-states\` writes this: one row for each kernel and run. \`RTWIRE_FULL_SEED\` as the first seed repeats it,"
		echo "\`RTWIRE_FULL_STATES=1\` with the seed of a failure only that. A run that was broken off has what it did until then."
		awk -F' *[|] *' '$5 == "passed" { all[$2] += $4 } END { for (one in all) printf "%d came back on Linux %s.\n", all[one], one }' "$rows" | sort
		echo
		echo "| kernel | seeds | start states | result | time | commit | date | machine |"
		echo "|---|---|---|---|---|---|---|---|"
		sort -s -t'|' -k2,2V "$rows"
	} >$STATES_NOTE.new
	mv $STATES_NOTE.new $STATES_NOTE
	rm "$rows"
}
