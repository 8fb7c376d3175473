# The kernel `debug`: Debian's sources, built here with the kernel's own checks (tests/vm/debug.config): use of freed memory (KASAN),
# order of locks (lockdep), leaks (kmemleak), allocations that fail on demand. Sourced by scripts/vm.

# debug_source: the package of the newest sources that apt offers, and their version.
debug_source() {
	local package
	package=$(apt-cache search --names-only '^linux-source-[0-9.]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
	[ -n "$package" ] || return 0
	echo "$package" "$(apt-cache show "$package" | sed -n 's/^Version: \([0-9.]*\).*/\1/p' | head -n 1)"
}

# debug_kernel: what `uname -r` says on it. It changes with the configuration.
debug_kernel() {
	local key found
	key=$(sha256sum "$VM/debug.config" | cut -c1-6)
	found=$(debug_source | cut -d' ' -f2)
	if [ -n "$found" ]; then
		echo "$found-debug-$key"
	else
		# Offline: what was built before.
		(cd "$CACHE" && ls -d ./*-debug-"$key" 2>/dev/null) | cut -d/ -f2 | sort -V | tail -n 1
	fi
}

# debug_fetch VERSION: builds that kernel, its modules and what modules are built with, into $CACHE/VERSION, once. It takes a quarter of
# an hour and 3 GB meanwhile.
debug_fetch() {
	local version=$1 folder=$CACHE/$1 new package tree
	package=$(debug_source | cut -d' ' -f1)
	for program in flex bison bc gcc make; do
		command -v $program >/dev/null || {
			echo "The kernel \`debug\` needs \`$program\`: run \`scripts/setup full\`" >&2
			return 3
		}
	done
	echo "Building Linux $version with KASAN, lockdep and kmemleak (once, a quarter of an hour; kept in $CACHE)"
	new=$(mktemp -d "$CACHE/fetching.XXXXXX")
	tree=$new/headers/usr/src/linux-headers-$version
	(
		mkdir -p "$tree"
		cd "$new"
		apt-get download -qq "$package" 2>apt.log || {
			cat apt.log >&2
			exit 1
		}
		dpkg-deb --fsys-tarfile ./*.deb | tar -xO --wildcards './usr/src/*.tar.xz' | tar -xJ -C "$tree" --strip-components 1
		rm ./*.deb apt.log
		cd "$tree"
		export LOCALVERSION=-${version#*-} KBUILD_BUILD_TIMESTAMP=2026-01-01
		{
			make -s tinyconfig
			scripts/kconfig/merge_config.sh -m .config "$VM/debug.config"
			make -s olddefconfig
		} >"$new/log" 2>&1
		# What the configuration asks for and does not get would be a check that never runs.
		while read -r line; do
			case $line in CONFIG_*) grep -qx "$line" .config || {
				echo "$VM/debug.config: $package does not take \`$line\`" >&2
				exit 1
			} ;; esac
		done <"$VM/debug.config"
		make -s -j"$(nproc)" KCFLAGS=-w bzImage modules >>"$new/log" 2>&1 && make -s INSTALL_MOD_PATH="$new" modules_install >>"$new/log" 2>&1 || {
			tail -n 30 "$new/log" >&2
			exit 1
		}
		[ "$(make -s kernelrelease)" = "$version" ] || {
			echo "scripts/vm: the kernel says $(make -s kernelrelease), and $version was expected" >&2
			exit 1
		}
		# QEMU starts this one by its boot loader: the short way into the kernel ends before KASAN has its memory.
		cp arch/x86/boot/bzImage "$new/vmlinux"
		# Modules need headers, scripts and objtool.
		rm -rf Documentation drivers sound fs net crypto samples kernel mm block security vmlinux* System.map
		find arch -mindepth 1 -maxdepth 1 ! -name x86 ! -name Kconfig -exec rm -rf {} +
		find arch lib init ipc virt -name '*.[oa]' -delete
		rm -f "$new/log" "$new/lib/modules/$version/build"
		mkdir -p "$new/boot"
		touch "$new/headers/complete" "$new/complete"
	) || {
		rm -rf "$new"
		return 1
	}
	rm -rf "$folder"
	mv "$new" "$folder"
}
