//! Seeded mistakes, of which the tests must find each: chosen by name while a program runs, and only in one that was
//! built with `--cfg mutants`. In every other build each question is a constant, and the compiler removes what asks it.

/// Says whether the mistake of this name is to be made: the one that the variable `MUTANT` names.
#[cfg(mutants)]
pub fn is(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("MUTANT").ok()).as_deref() == Some(name)
}

/// Never.
#[cfg(not(mutants))]
#[inline(always)]
pub const fn is(_name: &str) -> bool {
    false
}
