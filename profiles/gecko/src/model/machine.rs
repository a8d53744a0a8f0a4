//! The properties of the machine, and the memory of a process.
//!
//! Read once per capture, on a thread of the profiler. Nothing here is private: no argument, no
//! environment, no user name; `host` has the name of the machine. Unknown properties are left out.

use std::io::Write;
use std::panic::catch_unwind;
use std::sync::OnceLock;

use sysinfo::{CpuRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System};

use profiler_core::ids::ProcessId;
use profiler_json::JsonWriter;

/// The properties of the machine, in the form of `meta`.
#[derive(Debug, Default)]
struct Machine {
    system: String,
    cpu: String,
    physical_cpus: Option<usize>,
    logical_cpus: usize,
}

/// Writes the properties of the machine into `meta`.
pub(super) fn write<W: Write>(out: &mut JsonWriter<W>) {
    let machine = machine();
    let wide = |number: usize| u64::try_from(number).unwrap_or(0);
    out.entry_str("platform", std::env::consts::OS);
    out.entry_str("oscpu", &machine.system);
    out.entry_str("abi", std::env::consts::ARCH);
    if !machine.cpu.is_empty() {
        out.entry_str("CPUName", &machine.cpu);
    }
    if let Some(physical) = machine.physical_cpus {
        out.entry_u64("physicalCPUs", wide(physical));
    }
    out.entry_u64("logicalCPUs", wide(machine.logical_cpus));
}

/// Bytes of memory that a process has resident; `None` if it is gone.
pub(super) fn resident_bytes(pid: ProcessId) -> Option<u64> {
    // `sysinfo` may panic if `/proc` has unexpected contents.
    catch_unwind(|| {
        let pid = Pid::from_u32(pid.get());
        let mut system = System::new().ok()?;
        let memory = ProcessRefreshKind::nothing().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, memory);
        system.process(pid).map(sysinfo::Process::memory)
    })
    .ok()
    .flatten()
}

fn machine() -> &'static Machine {
    static MACHINE: OnceLock<Machine> = OnceLock::new();
    MACHINE.get_or_init(|| catch_unwind(read_machine).unwrap_or_default())
}

fn read_machine() -> Machine {
    let cpus = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing());
    let system = System::new_with_specifics(cpus).ok();
    let cpus = system.as_ref().map(System::cpus).unwrap_or_default();
    let distribution =
        System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned());
    let kernel = System::kernel_long_version().unwrap_or_default();
    Machine {
        system: format!("{distribution}; {kernel}"),
        cpu: cpus
            .first()
            .map(|cpu| cpu.brand().to_owned())
            .unwrap_or_default(),
        physical_cpus: System::physical_core_count().ok(),
        logical_cpus: cpus.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_a_missing_process_has_none() {
        let own = resident_bytes(ProcessId::new(std::process::id()));
        assert!(own.is_some_and(|bytes| bytes > 100_000), "{own:?}");
        assert_eq!(resident_bytes(ProcessId::new(u32::MAX - 1)), None);
    }

    #[test]
    fn the_machine_has_cpus() {
        assert!(machine().logical_cpus > 0);
    }
}
