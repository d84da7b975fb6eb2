//! Agents at work: real worker processes run the loops of agents, on a scripted model that speaks both wires, with real
//! tools. Workers die and leave, models refuse and fall silent, callers lose patience; whatever happens, no answer that was
//! stored is asked for again.

mod agent_files;
mod budgets;
mod cut_short;
mod deaths;
mod drains;
mod final_answers;
mod gates;
mod logs;
mod model_failures;
mod tool_calls;
mod tool_server;
pub mod workplace;
