package simulator

// Config is nightaudit's config for a fake Stripe and a fake application, to which
// a caller adds what its only source has besides. What differs between two of them
// comes from the environment: OWN_DATABASE and STATE_DIR are nightaudit's,
// APP_DATABASE and APP (the webhook URL) the application's, STRIPE (the base URL),
// STRIPE_KEY and STRIPE_SECRET the provider's.
const Config = `
database: { url: "${OWN_DATABASE}", state_dir: "${STATE_DIR}" }
databases: { app: { url: "${APP_DATABASE}" } }
sources:
  - name: shop
    provider: stripe
    base_url: ${STRIPE}
    credentials: { api_key: "${STRIPE_KEY}" }
    endpoints: [ { url: "${APP}", secrets: ["${STRIPE_SECRET}"] } ]
    ledger:
      database: app
      table: public.processed_events
      key: { event_id: event.id }
      type: event_type
      handled_at: handled_at
      done: "status = 'done'"
`
