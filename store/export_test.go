package store

// The statements as they are run, for the tests of their plans.
const (
	ClaimSQL     = claimSQL
	AtGateSQL    = atGateSQL
	QueueSQL     = queueSQL
	JoinHoldSQL  = joinHoldSQL
	LeaveHoldSQL = leaveHoldSQL
	OvertakeSQL  = overtakeSQL
	ForgetSQL    = forgetWitnessesSQL
	RecoverSQL   = abandonedSQL
)

// RunID is the run that took the lease.
func (l *Lease) RunID() string { return l.runID }
