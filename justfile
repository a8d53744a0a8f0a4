# The same steps as `.ci/run`, one recipe each. `just` without arguments lists them.

_default:
    @just --list --unsorted

# Everything that must pass before a merge
all:
    .ci/run

# What the other steps need (installs only what is missing)
tools:
    .ci/run tools

# Unit, property and integration tests, and the examples in the documentation
test:
    .ci/run test

# Formatting, to look at (`cargo fmt` mends it)
fmt:
    .ci/run fmt

# Lints: clippy, and rustdoc with its links
lint:
    .ci/run clippy doc

clippy:
    .ci/run clippy

doc:
    .ci/run doc

# The fallback without memfd, signals and /proc
portable:
    .ci/run portable

# All interleavings of the shared-memory protocols, within bounds
loom:
    .ci/run loom

# The tasks of tokio, in a build with tokio_unstable
tokio:
    .ci/run tokio

# profiler-core with recording compiled out
featureless:
    .ci/run featureless

# Other systems and processors, compiled only
targets:
    .ci/run targets

# The packages that would be published
package:
    .ci/run package

# The public interface, compared with an earlier revision
semver revision:
    .ci/semver {{ revision }}

# Licences, advisories and banned crates
deny:
    .ci/run deny

# The viewer's loader, and the self-test of our checks with it
viewer:
    .ci/run viewer

# Real programs, real profiles, the real viewer
acceptance:
    .ci/run acceptance

# Programs of others, with and without the profiler
zoo *names:
    .ci/zoo {{names}}

# The package for Python, with each Python that is installed
python:
    .ci/run python

# The promised figures; strict=1 makes a missed one a failure
figures strict="0":
    FIGURES_STRICT={{ strict }} .ci/run figures

# New inputs for every decoder
fuzz seconds="60":
    .ci/fuzz {{ seconds }}

# Recording and reading under the address sanitizer
asan:
    .ci/run asan

# Floods, kills, stops and pauses: nothing lost, exceeded or grown
soak minutes="3":
    .ci/soak {{ minutes }}

# Children killed at random moments: nothing committed may be lost
kills count="1000":
    .ci/kills {{ count }}

# What one usually wants before a commit
quick: fmt clippy test
