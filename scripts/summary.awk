# Reads tests/may-skip and the output of test binaries under cargo's heads; prints each binary that
# ended before it told its result, each skipped test with its reason, and
# "N passed, N failed, N skipped".

FNR == NR {
	if (!/^#/ && NF)
		allowed[++patterns] = $1
	next
}
/^ +Running .*\(/ || /^ +Doc-tests / {
	check_result()
	binary = $0
	sub(/^.*\//, "", binary)
	sub(/-[0-9a-f]*\)$/, "", binary)
	sub(/^ +Doc-tests /, "doc ", binary)
	has_result = 0
	section = ""
}
/^test .* \.\.\. ok$/ { passed++ }
/^test .* \.\.\. FAILED$/ { failed++ }
/^test .* \.\.\. ignored/ {
	name = $0
	sub(/^test /, "", name)
	sub(/ \.\.\. ignored.*/, "", name)
	skip(binary "::" name, "ignored")
}
/^failures:$/ { has_failed = 1; section = "" }
/^successes:$/ { has_failed = 0; section = "" }
/^---- .* stdout ----$/ {
	section = $0
	sub(/^---- /, "", section)
	sub(/ stdout ----$/, "", section)
}
/^test result:/ { section = ""; has_result = 1 }
/^skipped: / && section != "" && !has_failed {
	name = binary "::" section
	if (!(name in reason))
		passed--
	skip(name, substr($0, 10))
}

function check_result() {
	if (binary != "" && !has_result)
		print "  ended without a result: " binary
}

function skip(name, why) {
	if (!(name in reason)) {
		names[++skipped] = name
		reason[name] = why
	}
}

END {
	check_result()
	for (i = 1; i <= skipped; i++) {
		is_allowed = 0
		line = names[i] ": " reason[names[i]]
		for (p = 1; p <= patterns; p++)
			if (line ~ "^" allowed[p])
				is_allowed = 1
		print (is_allowed ? "  skipped: " : "  skipped, and not in tests/may-skip: ") line
	}
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
}
