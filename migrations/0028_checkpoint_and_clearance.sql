-- checkpoint with the clearance for the call that comes next: one round trip between two model calls, not two. VOLATILE, so
-- that the clearance sees what the checkpoint has just written: in one plain statement it would not.
create function checkpoint_and_clear_1(
    p_slot integer, p_task uuid, p_lease uuid, p_number integer, p_turn jsonb, p_session bigint, p_model text
)
returns table (
    closed_ms bigint,
    session_budget jsonb, session_input_tokens bigint, session_output_tokens bigint, session_cost_nanousd bigint,
    tree_budget jsonb, tree_input_tokens bigint, tree_output_tokens bigint, tree_cost_nanousd bigint
) language plpgsql as $$
begin
    perform checkpoint_1(p_session, p_slot, p_task, p_lease, p_number, p_turn);
    return query select * from clearance_1(p_task, p_session, p_model);
end $$;
