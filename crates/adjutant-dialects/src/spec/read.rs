use adjutant_agent::SessionId;
use serde_json::Value;

use super::{ReadCall, render};
use crate::{Context, Result};

/// A page of the full text of a task that has ended, collected or not.
pub(super) async fn read(
    context: &Context<'_>,
    session: SessionId,
    call: &ReadCall,
) -> Result<Value> {
    let page = context.store.read_result(session, call.task_id, call.offset, call.limit).await?;
    Ok(render::page(call, &page.text, page.next_offset, page.result_chars))
}
