"""Messages of headlight.v1 to requests and answers, for every frontend that serves the contract."""
