# The `rtwire` command on a real-time kernel.

test_version() {
	expect 0 rtwire --version
	says "rtwire"
}

test_lab_on_one_machine() {
	expect 0 rtwire plan /lab/examples/five-nodes.toml
	says "A-to-B"
}
