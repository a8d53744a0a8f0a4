//! Runs a filter of system calls, as the kernel does, to know what it answers.
//!
//! Source: `Documentation/networking/filter.rst` and `kernel/seccomp.c` of Linux, which allow a
//! part of classic BPF. Invariant: any program ends, because jumps only go forward; an instruction
//! that the kernel would refuse counts as a refusal.

use crate::raw::Call;

/// `struct sock_filter`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) if_true: u8,
    pub(crate) if_false: u8,
    pub(crate) value: u32,
}

/// `struct seccomp_data`, as 16 words of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallData([u32; 16]);

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

const RET_ALLOW: u32 = 0x7fff_0000;
const RET_LOG: u32 = 0x7ffc_0000;
const MEMORY_WORDS: usize = 16;

impl CallData {
    /// A system call with these first arguments; the further ones are 0, and so is its address.
    pub(crate) const fn new(call: Call, [first, second]: [u64; 2]) -> Self {
        let mut words = [0; 16];
        words[0] = call.0 as u32;
        words[1] = ARCHITECTURE;
        words[4] = first as u32;
        words[5] = (first >> 32) as u32;
        words[6] = second as u32;
        words[7] = (second >> 32) as u32;
        Self(words)
    }

    fn word(&self, offset: u32) -> Option<u32> {
        if !offset.is_multiple_of(4) {
            return None;
        }
        self.0.get(offset as usize / 4).copied()
    }
}

/// Whether a filter lets a call happen.
pub(crate) fn allows(filter: &[Instruction], call: &CallData) -> bool {
    run(filter, call).is_some_and(|answer| {
        let action = answer & 0xffff_0000;
        action == RET_ALLOW || action == RET_LOG
    })
}

/// The machine's registers.
struct Machine {
    a: u32,
    x: u32,
    memory: [u32; MEMORY_WORDS],
}

/// What an instruction does with the order of execution.
enum Next {
    Follows,
    Skips(usize),
    Ends(u32),
}

/// The answer of a filter. `None` if it has an instruction that the kernel does not allow.
fn run(filter: &[Instruction], call: &CallData) -> Option<u32> {
    let mut machine = Machine {
        a: 0,
        x: 0,
        memory: [0; MEMORY_WORDS],
    };
    let mut at = 0_usize;
    loop {
        match machine.step(*filter.get(at)?, call)? {
            Next::Follows => at = at.wrapping_add(1),
            Next::Skips(count) => at = at.wrapping_add(1).wrapping_add(count),
            Next::Ends(answer) => return Some(answer),
        }
    }
}

impl Machine {
    fn step(&mut self, instruction: Instruction, call: &CallData) -> Option<Next> {
        let Instruction { code, value, .. } = instruction;
        // The classes: LD, LDX, ST, STX, ALU, JMP, RET, MISC.
        match code & 7 {
            0 => self.a = self.load(code, value, call)?,
            1 => self.x = self.load(code, value, call)?,
            2 => *self.memory.get_mut(value as usize)? = self.a,
            3 => *self.memory.get_mut(value as usize)? = self.x,
            4 => self.a = self.compute(code, value)?,
            5 => return self.jump(instruction),
            6 => return self.answer(code, value),
            _ if code & 0xf8 == 0 => self.x = self.a,
            _ if code & 0xf8 == 0x80 => self.a = self.x,
            _ => return None,
        }
        Some(Next::Follows)
    }

    fn load(&self, code: u16, value: u32, call: &CallData) -> Option<u32> {
        // The modes: IMM, ABS, MEM, LEN.
        match code & 0xe0 {
            0x00 => Some(value),
            0x20 => call.word(value),
            0x60 => self.memory.get(value as usize).copied(),
            0x80 => Some(64), // the length of `struct seccomp_data`
            _ => None,
        }
    }

    fn operand(&self, code: u16, value: u32) -> u32 {
        if code & 8 == 0 { value } else { self.x }
    }

    fn compute(&self, code: u16, value: u32) -> Option<u32> {
        let (a, b) = (self.a, self.operand(code, value));
        match code & 0xf0 {
            0x00 => Some(a.wrapping_add(b)),
            0x10 => Some(a.wrapping_sub(b)),
            0x20 => Some(a.wrapping_mul(b)),
            0x30 => a.checked_div(b),
            0x40 => Some(a | b),
            0x50 => Some(a & b),
            0x60 => Some(a.checked_shl(b).unwrap_or(0)),
            0x70 => Some(a.checked_shr(b).unwrap_or(0)),
            0x80 => Some(a.wrapping_neg()),
            0xa0 => Some(a ^ b),
            _ => None,
        }
    }

    fn jump(&self, instruction: Instruction) -> Option<Next> {
        let Instruction {
            code,
            if_true,
            if_false,
            value,
        } = instruction;
        let b = self.operand(code, value);
        let is_true = match code & 0xf0 {
            0x00 => return Some(Next::Skips(value as usize)),
            0x10 => self.a == b,
            0x20 => self.a > b,
            0x30 => self.a >= b,
            0x40 => self.a & b != 0,
            _ => return None,
        };
        Some(Next::Skips(usize::from(if is_true {
            if_true
        } else {
            if_false
        })))
    }

    fn answer(&self, code: u16, value: u32) -> Option<Next> {
        match code & 0x18 {
            0x00 => Some(Next::Ends(value)),
            0x10 => Some(Next::Ends(self.a)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn instruction(code: u16, if_true: u8, if_false: u8, value: u32) -> Instruction {
        Instruction {
            code,
            if_true,
            if_false,
            value,
        }
    }

    /// Loads the number of the call, allows one, and answers others with `other`.
    fn allowing(call: Call, other: u32) -> [Instruction; 4] {
        [
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 1, call.0 as u32),
            instruction(0x06, 0, 0, RET_ALLOW),
            instruction(0x06, 0, 0, other),
        ]
    }

    #[test]
    fn a_filter_allows_the_call_that_it_names_and_no_other() {
        let filter = allowing(Call::CLOCK_GETTIME, 0);
        assert!(allows(&filter, &CallData::new(Call::CLOCK_GETTIME, [3, 0])));
        assert!(!allows(&filter, &CallData::new(Call::RT_SIGRETURN, [0, 0])));
        let errno = allowing(Call::CLOCK_GETTIME, 0x0005_0001);
        assert!(!allows(&errno, &CallData::new(Call::GETPID, [0, 0])));
    }

    #[test]
    fn a_filter_sees_arguments_and_architecture() {
        let only_thread_clock = [
            instruction(0x20, 0, 0, 4),
            instruction(0x15, 1, 0, ARCHITECTURE),
            instruction(0x06, 0, 0, 0),
            instruction(0x20, 0, 0, 16),
            instruction(0x15, 0, 1, 3),
            instruction(0x06, 0, 0, RET_ALLOW),
            instruction(0x06, 0, 0, 0),
        ];
        assert!(allows(
            &only_thread_clock,
            &CallData::new(Call::CLOCK_GETTIME, [3, 0])
        ));
        assert!(!allows(
            &only_thread_clock,
            &CallData::new(Call::CLOCK_GETTIME, [1, 0])
        ));
    }

    #[test]
    fn a_program_that_the_kernel_refuses_is_a_refusal() {
        let data = CallData::new(Call::GETPID, [0, 0]);
        assert!(!allows(&[], &data));
        assert!(
            !allows(&[instruction(0x05, 0, 0, u32::MAX)], &data),
            "beyond the end"
        );
        assert!(!allows(
            &[instruction(0x28, 0, 0, 0), instruction(0x07, 0, 0, 0)],
            &data
        ));
        assert!(!allows(
            &[
                instruction(0x02, 0, 0, 16),
                instruction(0x06, 0, 0, RET_ALLOW)
            ],
            &data
        ));
    }
}
