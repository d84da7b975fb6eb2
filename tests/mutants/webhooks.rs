//! Deliveries to webhooks.

use super::Mutant;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "delivery_settled_without_lease",
        caught_by: &[
            "worker::webhooks::deaths::a_delivery_belongs_to_one_sender_until_its_lease_expires",
        ],
        edits: &[(
            "settle_delivery_1",
            "where id = p_id and lease = p_lease\n",
            "where id = p_id\n",
        )],
    },
    Mutant {
        name: "delivery_claimed_twice",
        caught_by: &[
            "worker::webhooks::deaths::a_delivery_belongs_to_one_sender_until_its_lease_expires",
        ],
        edits: &[("claim_deliveries_1", "next_try_at = now() + p_lease", "next_try_at = now()")],
    },
    Mutant {
        name: "delivery_forgotten_by_ends",
        caught_by: &["worker::webhooks::ends::the_end_of_a_task_is_delivered_signed_and_as_stored"],
        edits: &[("write_ends_1", "if to_deliver is not null then", "if false then")],
    },
    Mutant {
        name: "children_told_of",
        caught_by: &[
            "worker::webhooks::ends::a_sessions_webhook_gets_all_but_children_and_tasks_with_their_own",
        ],
        edits: &[(
            "create_deliveries_1",
            "case when t.parent is null then s.webhook end",
            "s.webhook",
        )],
    },
    Mutant {
        name: "gone_receivers_told",
        caught_by: &["worker::webhooks::retries::a_receiver_that_answers_gone_gets_nothing_more"],
        edits: &[("create_deliveries_1", " and h.webhook ->> 'disabled_at' is null", "")],
    },
    Mutant {
        name: "all_ends_told",
        caught_by: &[
            "worker::webhooks::ends::only_subscribed_ends_are_delivered_and_none_without_a_webhook",
        ],
        edits: &[(
            "create_deliveries_1",
            "h.webhook -> 'events' ? ('task.' || e.kind)",
            "h.webhook is not null",
        )],
    },
    Mutant {
        name: "old_secrets_sign",
        caught_by: &["worker::webhooks::secrets::two_secrets_sign_until_the_older_expires"],
        edits: &[("claim_deliveries_1", " and (w.expires_at is null or w.expires_at > now())", "")],
    },
    Mutant {
        name: "secrets_of_all_tenants_sign",
        caught_by: &[
            "worker::webhooks::tenants::a_tenant_has_its_own_secrets_deliveries_and_webhooks",
        ],
        edits: &[("claim_deliveries_1", "w.tenant = c.tenant and ", "")],
    },
    Mutant {
        name: "deliveries_of_all_tenants",
        caught_by: &[
            "worker::webhooks::tenants::a_tenant_has_its_own_secrets_deliveries_and_webhooks",
        ],
        edits: &[("deliveries_1", "h.tenant = p_tenant", "true")],
    },
    Mutant {
        name: "slow_receivers_hold_up_others",
        caught_by: &[
            "worker::webhooks::retries::a_receiver_that_does_not_answer_does_not_hold_up_the_others",
        ],
        edits: &[("claim_deliveries_1", " and d.url <> all(p_busy)", "")],
    },
];
