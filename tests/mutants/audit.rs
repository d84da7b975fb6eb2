//! The audit.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "audit_forgotten",
        caught_by: &[
            "store::audit::every_action_has_a_row_that_says_who_did_what_before_and_after",
        ],
        edits: &[("audit_1", "if p_actor is null then", "if true then")],
    },
    Mutant {
        name: "audit_of_all_tenants",
        caught_by: &["store::audit::the_audit_is_filtered_and_paged_from_the_newest_on"],
        edits: &[("audits_1", "'a.tenant = $1'", "'true'")],
    },
    Mutant {
        name: "audit_kept_for_ever",
        caught_by: &["store::audit::rows_of_the_audit_are_deleted_after_400_days"],
        edits: &[("delete_old_audit_1", "interval '400 days'", "interval '4000 days'")],
    },
    Mutant {
        name: "cap_read_before_its_lock",
        caught_by: &["store::audit::a_cap_says_what_it_has_replaced_even_if_two_are_set_at_once"],
        edits: &[("set_cap_as_1", "perform from slot order by n for update;", "")],
    },
];
