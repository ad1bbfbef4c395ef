//! ESI 1.0 (W3C Note of 4 August 2001): a page with holes for fragments.
//!
//! [`Program::parse`] reads a template once. The program consists of positions in the template, and
//! of no copies of its text. A [`Run`] carries it out for one request as a state machine: it says
//! which text is next, which values are substituted, and which fragments are needed.
//!
//! Invariants: substituted values and fragments are never parsed. Whatever is not well-formed ESI
//! is delivered as it is, byte for byte, with a [`Fault`] that says why: a tag that has no partner
//! alone, an element with a wrong structure from its first to its last byte. Time and memory grow
//! linearly with the template. Nothing here knows how fragments are fetched.

mod attributes;
mod expression;
mod parser;
mod program;
mod run;
mod tags;
mod values;
mod variable;

pub use program::{Fault, FaultKind, Limits, Program, Span, TemplateError};
pub use run::{Consequence, Fetch, Run, Step};
pub use values::Values;
